package redis

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// A server is reached by its socket, also by waiters, who have a connection of their own. Nobody listens on the host then.
func TestSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "redis.sock")
	testserver.Redis(t, testserver.WithFlags("--unixsocket", path))
	client, err := coord.Open(t.Context(), "redis://127.0.0.1:1/3?socket="+path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	held, err := client.Lock(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	other, err := coord.Open(t.Context(), "redis://localhost/3?socket="+path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	next := make(chan error, 1)
	go func() {
		_, err := other.Lock(t.Context(), "job")
		next <- err
	}()
	if err := held.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-next; err != nil {
		t.Error(err)
	}
	if _, err := coord.Open(t.Context(), "redis://localhost?socket="+path+".away"); err == nil || !strings.Contains(err.Error(), ".away") {
		t.Errorf("a socket that is away: %v", err)
	}
}
