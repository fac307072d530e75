package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each user has limits of their own, and nobody gets past the password.
func TestRouter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "coord.yaml")
	text := "url: memory://\nrules:\n  - {name: invoices, match: {path: /invoices}, subject: user, limits: [3/1m]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := config.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	service := router(client)
	for i, tc := range []struct {
		user, password string
		code           int
	}{
		{"ann", "secret", 204},
		{"ann", "secret", 204},
		{"ann", "wrong", 401},
		{"ann", "secret", 204},
		{"ann", "secret", 429},
		{"bob", "secret", 204},
	} {
		r := httptest.NewRequest(http.MethodGet, "/invoices", nil)
		r.SetBasicAuth(tc.user, tc.password)
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		if w.Code != tc.code {
			t.Errorf("%d: %s got %d, want %d", i, tc.user, w.Code, tc.code)
		}
	}
}
