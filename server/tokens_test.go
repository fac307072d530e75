package server

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A token that changes in its file is taken while the server serves, when it has rested. One that cannot be taken leaves
// the one from before, and so does a file that is away.
func TestTokensChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "token")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("first-first-first\n")
		k := start(t, "serve: {callers: [{name: a, token: '${file:"+path+"}', allow: [{rights: [read]}]}, {name: b, token: other-other-other, allow: [{rights: [read]}]}]}")
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- k.Serve(ctx, &pipes{make(chan net.Conn), make(chan struct{})}) }()
		look := func(token string, want int) {
			t.Helper()
			code := ""
			if want != http.StatusOK {
				code = "unauthenticated"
			}
			k.post("/v1/locks/list", `{}`, bearer(token)).want(t, want, code)
		}
		look("first-first-first", http.StatusOK)
		write("second-second-second\n")
		time.Sleep(tokensEvery + 1) // it has been seen once
		look("first-first-first", http.StatusOK)
		time.Sleep(tokensEvery)
		look("second-second-second", http.StatusOK)
		look("first-first-first", http.StatusUnauthorized)
		look("other-other-other", http.StatusOK)
		for _, bad := range []string{"short", "other-other-other"} {
			write(bad)
			time.Sleep(3 * tokensEvery)
			look("second-second-second", http.StatusOK)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * tokensEvery)
		look("second-second-second", http.StatusOK)
		write("third-third-third")
		time.Sleep(3 * tokensEvery)
		look("third-third-third", http.StatusOK)
		look("second-second-second", http.StatusUnauthorized)
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
