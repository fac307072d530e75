//go:build unix

package cli

import (
	"context"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/cmd/coord/internal/child"
	"github.com/coordgo/coord/driver"
)

// silent is a store that grants a lock, and then answers nothing more.
type silent struct {
	driver.Locker
	driver.Backend
	closed chan struct{}
}

func (s *silent) Renew(ctx context.Context, _ string, _ driver.Request) (driver.Grant, error) {
	<-ctx.Done()
	return driver.Grant{}, ctx.Err()
}

func (s *silent) Unlock(ctx context.Context, _, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s *silent) Close() error {
	close(s.closed)
	return s.Backend.Close()
}

// schemes numbers the schemes of stores, which are registered once each.
var schemes atomic.Int64

// When its lock is lost the command ends without Close, which would wait for the store and has nothing to
// give back. How long that takes is the machine's business, so the calls are looked at, not the clock.
func TestLockLostDoesNotClose(t *testing.T) {
	backend := memory.NewStore().Open()
	store := &silent{Locker: backend.(driver.Locker), Backend: backend, closed: make(chan struct{})}
	scheme := "silent" + strconv.FormatInt(schemes.Add(1), 10)
	coord.Register(scheme, func(context.Context, *url.URL) (driver.Backend, error) { return store, nil })
	var stderr strings.Builder
	a := &app{store: storeFlags{url: scheme + "://host", env: os.LookupEnv}, signals: child.Listen(), stdout: &output{w: os.Stdout}, stderr: newMessages(&stderr)}
	a.Runner = processes{}
	cfg, err := a.store.loadShared(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = a.runLock(t.Context(), func() {}, cfg, "a", []string{"sleep", "300"}, lockFlags{ttl: 500 * time.Millisecond})
	code := a.report(err)
	if a.stderr.flush(); code != exitLost {
		t.Errorf("status %d, want %d: %s", code, exitLost, stderr.String())
	}
	select {
	case <-store.closed:
		t.Error("the client was closed, want the process to end without")
	default:
	}
}
