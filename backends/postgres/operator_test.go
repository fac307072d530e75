package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// An operator ends statements that wait for a row. Nothing has come of them, and holds outlive that.
func TestLockTimeout(t *testing.T) {
	t.Parallel()
	srv := server(t)
	set(t, srv.Addr, "lock_timeout = '50ms'")
	b, c := open(t, patientURL(t, srv.Addr)), newClient(t, patientURL(t, srv.Addr))
	r := request("a", time.Hour)
	mustTry(t, b, "k", r)
	l := must[*coord.Lock](t)(c.TryLock(t.Context(), "client", coord.TTL(time.Minute)))
	release, releaseClient := rowLock(t, srv.Addr, "k"), rowLock(t, srv.Addr, "client")
	for what, call := range map[string]func() error{
		"Renew":        func() error { _, err := b.Renew(t.Context(), "k", r); return err },
		"Unlock":       func() error { return b.Unlock(t.Context(), "k", r.ID) },
		"Break":        func() error { return b.Break(t.Context(), "k", r.ID) },
		"a repetition": func() error { _, err := b.TryLock(t.Context(), "k", r); return err },
		"a wait": func() error {
			_, err := b.Lock(t.Context(), "k", request("b", time.Hour), func() {})
			return err
		},
	} {
		if err := answered(call); !errors.Is(err, driver.ErrNotSent) || !contains(err, "lock timeout") {
			t.Errorf("%s of a row that is locked: %v, want ErrNotSent that says so", what, err)
		}
	}
	release()
	releaseClient()
	if err := errors.Join(l.Err(), l.Unlock(t.Context()), b.Unlock(t.Context(), "k", r.ID)); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// No session of coord is idle in a transaction, and one that was ended because it was idle is not used. Waiters go on.
func TestIdleSessionsAreEnded(t *testing.T) {
	t.Parallel()
	srv := server(t)
	one, two := newClient(t, patientURL(t, srv.Addr)), newClient(t, patientURL(t, srv.Addr))
	set(t, srv.Addr, "idle_in_transaction_session_timeout = '1ms'")
	set(t, srv.Addr, "idle_session_timeout = '250ms'")
	admin(t, superuser(t, srv.Addr)+"&idle_session_timeout=0", "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE usename = 'app' AND datname = current_database()") // the next ones have it
	// A session that ends while a statement is on its way to it has not read it: that is a refusal, and no unknown outcome.
	// A busy machine may not make a connection in time.
	again := func(err error) bool {
		return errors.Is(err, coord.ErrUnavailable) && (contains(err, "57P05") || errors.Is(err, context.DeadlineExceeded))
	}
	take := func(c *coord.Client) *coord.Lock {
		for {
			l, err := c.Lock(t.Context(), "k", coord.TTL(time.Minute))
			if err == nil {
				return l
			}
			if !again(err) {
				t.Error(err)
				return nil
			}
		}
	}
	release := func(l *coord.Lock) {
		t.Helper()
		if l == nil {
			t.FailNow() // that has been told
		}
		if err := l.Unlock(t.Context()); err != nil && !again(err) { // else the client sees to it
			t.Errorf("Unlock: %v", err)
		}
	}
	for i := range 5 {
		held, granted := take(one), make(chan *coord.Lock, 1)
		go func() { granted <- take(two) }()
		pause(time.Duration(i) * 100 * time.Millisecond) // sessions end meanwhile
		release(held)
		release(<-granted)
	}
}

// A transaction that is idle with a fence in it is ended by the server: what it wrote is undone, and the next fence goes on.
func TestIdleFenceIsUndone(t *testing.T) {
	t.Parallel()
	srv := server(t)
	admin(t, superuser(t, srv.Addr), "CREATE TABLE public.written (token bigint); GRANT ALL ON public.written TO app")
	b := open(t, patientURL(t, srv.Addr))
	write := func(tx pgx.Tx, token coord.Token) error {
		err := Fence(t.Context(), tx, "k", token)
		if err == nil {
			_, err = tx.Exec(t.Context(), "INSERT INTO written VALUES ($1)", int64(token))
		}
		return err
	}
	old := must[pgx.Tx](t)(b.pool.Begin(t.Context()))
	defer func() { _ = old.Rollback(context.Background()) }()
	if err := write(old, 1); err != nil {
		t.Fatal(err)
	}
	must[pgconn.CommandTag](t)(old.Exec(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = '200ms'"))
	if err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error { return write(tx, 2) }); err != nil {
		t.Errorf("the next holder: %v", err)
	}
	if err := old.Commit(t.Context()); err == nil {
		t.Error("the transaction that was ended is committed")
	}
	var tokens []int64
	rows := must[pgx.Rows](t)(b.pool.Query(t.Context(), "SELECT token FROM written"))
	tokens = must[[]int64](t)(pgx.CollectRows(rows, pgx.RowTo[int64]))
	if len(tokens) != 1 || tokens[0] != 2 {
		t.Errorf("written: %v, want what the next holder wrote", tokens)
	}
}

// Sessions that are serializable by default, and a server that undoes statements because of others: exclusion, tokens and
// limits are kept, and work goes on.
func TestSerializableSessions(t *testing.T) {
	t.Parallel()
	srv := server(t)
	set(t, srv.Addr, "default_transaction_isolation = 'serializable'")
	h := &history{limit: coord.PerSecond(50)}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		c := newClient(t, patientURL(t, srv.Addr))
		for range 3 {
			wg.Go(func() { h.hold(ctx, c, "k", 5*time.Second) })
		}
		wg.Go(func() { h.take(ctx, c, "limit") })
		wg.Go(func() { h.take(ctx, c, "limit") })
	}
	h.await(t, "serializable", time.Time{}, 60)
	stop()
	wg.Wait()
	h.check(t)
}

// check wants exclusion, tokens that rise, and a limit within its bound.
func (h *history) check(t *testing.T) {
	t.Helper()
	h.checkExclusion(t)
	h.checkTokens(t)
	if peak := h.peak(); peak > h.limit.Rate {
		t.Errorf("%d permits in a second, want at most %d", peak, h.limit.Rate)
	}
	t.Logf("%d holds, %d lost, %d permits", len(h.tenures), h.lost, len(h.takes))
}
