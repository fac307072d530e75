package server

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coordgo/coord/config"
)

// A reload that waits for a token does not bring back what a later one has taken away.
func TestReloadOrder(t *testing.T) {
	dir := t.TempDir()
	path, fifo := filepath.Join(dir, "coord.yaml"), filepath.Join(dir, "token")
	write := func(token, right string) {
		t.Helper()
		text := "url: memory://\nserve: {callers: [{name: a, token: '" + token + "', allow: [{rights: [" + right + "]}]}]}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first-first-first", "lock")
	client, err := config.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	k := startOn(t, client, nil)
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	write("${file:"+fifo+"}", "lock")
	if err := client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	ends := make(chan error, 2)
	go func() { ends <- k.Reload(t.Context()) }()
	token, err := os.OpenFile(fifo, os.O_WRONLY, 0) // when the reload reads
	if err != nil {
		t.Fatal(err)
	}
	write("other-other-other", "read")
	if err := client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { ends <- k.Reload(t.Context()) }()
	if _, err := token.WriteString("late-late-late-late"); err != nil {
		t.Error(err)
	}
	if err := token.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	k.post("/v1/locks/list", `{}`, bearer("other-other-other")).ok(t)
	k.post(acquirePath, `{"key":"a"}`, bearer("other-other-other")).want(t, http.StatusForbidden, "forbidden")
	k.post(acquirePath, `{"key":"a"}`, bearer("late-late-late-late")).want(t, http.StatusUnauthorized, "unauthenticated")
}
