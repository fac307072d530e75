package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// superURL is of a server that has no user but the superuser.
func superURL(addr string) string {
	return fmt.Sprintf("%s&timeout=%v", testserver.PostgresURL(testserver.PostgresUser, addr), maxTimeout)
}

// lockUntilRefused takes new keys until the store refuses one.
func lockUntilRefused(t *testing.T, b *backend) (err error) {
	t.Helper()
	for i := 0; err == nil; i++ {
		if i == 100_000 {
			t.Fatal("the disk is full, and nothing is refused")
		}
		_, err = b.TryLock(t.Context(), fmt.Sprint("new ", i), request("a", time.Hour))
	}
	return err
}

// A disk without room for more rows refuses new keys. What is held is renewed and given back, and taken again by others.
func TestDataOnAFullDisk(t *testing.T) {
	t.Parallel()
	srv := testserver.Postgres(t, testserver.WithDisk(testserver.DiskData, "96m"))
	b, c := open(t, superURL(srv.Addr)), newClient(t, superURL(srv.Addr))
	ctx := t.Context()
	pid := srv.Pid()
	held, freed, next := request("held", time.Hour), request("freed", time.Hour), request("next", time.Hour)
	before := mustTry(t, b, "held", held)
	mustTry(t, b, "freed", freed)
	l := must[*coord.Lock](t)(c.TryLock(ctx, "client", coord.TTL(3*time.Second)))
	srv.Fill()
	if err := lockUntilRefused(t, b); !errors.Is(err, driver.ErrNotSent) || !contains(err, "No space left on device") {
		t.Errorf("a new key: %v, want ErrNotSent that says so", err)
	}
	if _, err := c.TryLock(ctx, "one more", coord.TTL(time.Minute)); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("a new key: %v, want ErrUnavailable", err)
	}
	for range 20 {
		if g, err := b.Renew(ctx, "held", held); err != nil || g.Token != before.Token {
			t.Fatalf("Renew: token %d, %v, want %d", g.Token, err, before.Token)
		}
	}
	if err := b.Unlock(ctx, "freed", freed.ID); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	mustTry(t, b, "freed", next)
	if err := l.Err(); err != nil {
		t.Errorf("a hold that is renewed: %v", err)
	}
	srv.Free()
	mustTry(t, b, "after", request("a", time.Hour))
	if err := l.Unlock(ctx); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	if srv.Pid() != pid {
		t.Error("the server was restarted")
	}
}

// A server without room for its write-ahead log stops. That is an outage: calls end, and holds whose leases outlast it live on.
func TestLogOnAFullDisk(t *testing.T) {
	t.Parallel()
	srv := testserver.Postgres(t, testserver.WithDisk(testserver.DiskWAL, "16m"),
		testserver.WithFlags("-c", "checkpoint_timeout=1h", "-c", "min_wal_size=2MB", "-c", "max_wal_size=1GB"))
	b := open(t, superURL(srv.Addr))
	r := request("held", time.Hour)
	before := mustTry(t, b, "held", r)
	srv.Fill()
	outage := func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), hung)
		defer cancel()
		for err == nil {
			_, err = b.pool.Exec(ctx, "SELECT pg_logical_emit_message(false, 'fill', repeat('x', 100000))")
		}
		return err
	}
	t.Logf("without room: %v", outage())
	for range 3 { // it may come back, and stop again
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		start := time.Now()
		_, err := b.TryLock(ctx, "new", request("a", time.Hour))
		t.Logf("TryLock: %v after %v", err, time.Since(start).Round(time.Millisecond))
		cancel()
	}
	if g, err := b.TryLock(t.Context(), "held", request("b", time.Hour)); err == nil {
		t.Errorf("token %d is granted of a key that is held", g.Token)
	}
	srv.Free()
	srv.Restart()
	if g, err := b.Renew(t.Context(), "held", r); err != nil || g.Token != before.Token {
		t.Errorf("Renew after the outage: token %d, %v, want %d", g.Token, err, before.Token)
	}
	mustTry(t, b, "another", request("a", time.Hour))
}
