package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coordgo/coord/driver"
)

// mustQueue takes a place in a queue.
func mustQueue(t *testing.T, b *backend, key string, r driver.Request) {
	t.Helper()
	if a, err := b.ask(t.Context(), b.sql.queue, key, r, maxPlace); !errors.Is(err, driver.ErrLocked) || a.ahead == nil {
		t.Fatalf("a place in the queue: %+v, %v, want ErrLocked", a, err)
	}
}

// awaitWaiters returns when so many wait for k.
func awaitWaiters(t *testing.T, b *backend, n int) {
	t.Helper()
	for start := time.Now(); ; pause(time.Millisecond) {
		h, err := b.Inspect(t.Context(), "k")
		if err == nil && h.Waiters == n {
			return
		}
		if time.Since(start) > hung {
			t.Fatalf("%d wait, %v, want %d", h.Waiters, err, n)
		}
	}
}

// A waiter with a place looks without the row of the lock, which the holder's renewals and release want.
func TestPlacedWaiterLeavesTheHoldersRow(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	holder, waiter := request("holder", time.Hour), request("waiter", time.Hour)
	mustTry(t, b, "k", holder)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := b.Lock(ctx, "k", waiter, func() {})
		left <- err
	}()
	awaitWaiters(t, b, 1)
	release := rowLock(t, srv.Addr, "k")
	look := func() (xmin, xmax uint32, until time.Time) {
		err := b.pool.QueryRow(t.Context(), "SELECT l.xmin, l.xmax, w.until FROM coord.locks AS l JOIN coord.waiters AS w USING (key)", pgx.QueryExecModeExec).Scan(&xmin, &xmax, &until)
		if err != nil {
			t.Fatal(err)
		}
		return xmin, xmax, until
	}
	xmin, xmax, until := look()
	for signs, start := 0, time.Now(); signs < 2; pause(time.Millisecond) {
		if _, _, now := look(); now != until {
			until = now
			signs++
		}
		if time.Since(start) > hung {
			t.Fatal("a waiter gives no sign of life while the row of the lock is locked")
		}
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := b.Unlock(t.Context(), "k", waiter.ID); err != nil { // it waits for nobody, either
		t.Errorf("a waiter that leaves: %v", err)
	}
	awaitWaiters(t, b, 0)
	release()
	if h := must[driver.Holder](t)(b.Inspect(t.Context(), "k")); h.ID != holder.ID {
		t.Errorf("%s holds, want %s", h.ID, holder.ID)
	}
	err := b.pool.QueryRow(t.Context(), "SELECT xmin FROM coord.locks WHERE xmin = $1 AND xmax = $2", pgx.QueryExecModeExec, xmin, xmax).Scan(new(uint32))
	if err != nil {
		t.Errorf("the row of the lock was written meanwhile: %v", err)
	}
}

// When the lease of a dead holder is over, only the first in the queue asks for the lock. Others go on looking.
func TestOnlyTheFirstAsks(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	mustTry(t, b, "k", request("dead", time.Hour))
	mustQueue(t, b, "k", request("first", time.Hour))
	second := request("second", time.Hour)
	mustQueue(t, b, "k", second)
	admin(t, superuser(t, srv.Addr), "UPDATE coord.locks SET until = clock_timestamp()")
	row := func() (s string) {
		if err := b.pool.QueryRow(t.Context(), "SELECT xmin || ' ' || xmax || ' ' || ctid FROM coord.locks", pgx.QueryExecModeExec).Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for held := true; held; {
		_, err := b.Inspect(t.Context(), "k")
		held = !errors.Is(err, driver.ErrNotHeld)
	}
	for before, looks := row(), 0; looks < 10; {
		admin(t, superuser(t, srv.Addr), "UPDATE coord.waiters SET until = clock_timestamp() + interval '2 seconds'")
		a, err := b.ask(t.Context(), b.sql.resume, "k", second, maxPlace)
		if err == nil || a.ahead == nil {
			t.Fatalf("a look of the second: %+v, %v", a, err)
		}
		if *a.ahead == 1 { // on a busy machine the place of the first may have ended
			looks++
		} else {
			before = row()
		}
		if now := row(); now != before {
			t.Fatalf("a look of the second wrote the row of the lock: %s, before %s", now, before)
		}
	}
}

// Who has withdrawn its place is not granted the key by a look that was on its way.
func TestWithdrawnPlaceIsNotGranted(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	holder, waiter := request("holder", time.Hour), request("waiter", time.Hour)
	mustTry(t, b, "k", holder)
	mustQueue(t, b, "k", waiter)
	if err := b.Unlock(t.Context(), "k", holder.ID); err != nil {
		t.Fatal(err)
	}
	release := rowLock(t, srv.Addr, "k")
	looked := make(chan asked, 1)
	go func() {
		a, _ := b.ask(t.Context(), b.sql.resume, "k", waiter, maxPlace)
		looked <- a
	}()
	untilBlocked(t, b, 1)
	other := open(t, patientURL(t, srv.Addr)) // which knows nothing of that look
	if err := other.Unlock(t.Context(), "k", waiter.ID); err != nil {
		t.Errorf("the waiter leaves: %v", err)
	}
	release()
	if a := <-looked; a.granted {
		t.Errorf("a waiter that has left is granted the key: %+v", a)
	}
	mustTry(t, b, "k", request("next", time.Hour))
}

// A release that meets the grant of its id ends the hold.
func TestWithdrawalMeetsTheGrant(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b, other := open(t, patientURL(t, srv.Addr)), open(t, patientURL(t, srv.Addr))
	holder, waiter := request("holder", time.Hour), request("waiter", time.Hour)
	mustTry(t, b, "k", holder)
	mustQueue(t, b, "k", waiter)
	if err := b.Unlock(t.Context(), "k", holder.ID); err != nil {
		t.Fatal(err)
	}
	tx := must[pgx.Tx](t)(b.pool.Begin(t.Context()))
	var granted bool
	if err := tx.QueryRow(t.Context(), "SELECT granted FROM coord.resume_1('k', $1, '1 hour', '2 seconds')", waiter.ID).Scan(&granted); err != nil || !granted {
		t.Fatalf("granted: %v, %v", granted, err)
	}
	left := make(chan error, 1)
	go func() { left <- other.Unlock(t.Context(), "k", waiter.ID) }()
	untilBlocked(t, b, 1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-left; err != nil {
		t.Errorf("Unlock: %v", err)
	}
	mustTry(t, b, "k", request("next", time.Hour))
}

// A refusal says who holds the key, if anybody does.
func TestRefusalNamesTheHolder(t *testing.T) {
	t.Parallel()
	b := open(t, patientURL(t, server(t).Addr))
	holder, waiter := request("holder", time.Hour), request("waiter", time.Hour)
	mustTry(t, b, "k", holder)
	mustQueue(t, b, "k", waiter)
	named := func(when, want string) {
		t.Helper()
		for what, sql := range map[string]string{"take": b.sql.take, "queue": b.sql.queue, "resume": b.sql.resume} {
			r, place := waiter, maxPlace
			if sql == b.sql.take {
				r, place = request("other", time.Hour), 0
			}
			var locked *driver.LockedError
			if _, err := b.ask(t.Context(), sql, "k", r, place); !errors.As(err, &locked) || locked.Holder != want {
				t.Errorf("%s of a key that is %s: %v, holder %q, want %q", what, when, err, locked.Holder, want)
			}
		}
	}
	named("held", holder.ID)
	if err := b.UnlockAfter(t.Context(), "k", holder.ID, time.Hour); err != nil {
		t.Fatal(err)
	}
	named("kept", "")
}

// A hand-over waits for the disk once: when it is granted. What may be lost in a crash does not.
func TestReleasesDoNotWaitForTheDisk(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	durable := func(what, sql string) string {
		t.Helper()
		var setting string
		tx := must[pgx.Tx](t)(b.pool.Begin(t.Context()))
		_, err := tx.Exec(t.Context(), sql)
		if err == nil {
			err = tx.QueryRow(t.Context(), "SELECT current_setting('synchronous_commit')").Scan(&setting)
		}
		if err := errors.Join(err, tx.Commit(t.Context())); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return setting
	}
	for _, step := range []struct{ what, sql, want string }{
		{"a grant", "SELECT coord.take_1('k', 'a', '1 hour', false)", "on"},
		{"a refusal", "SELECT coord.take_1('k', 'b', '1 hour', true)", "off"},
		{"a place", "SELECT coord.queue_1('k', 'b', '1 hour', '1 hour')", "off"},
		{"a sign of life", "SELECT coord.resume_1('k', 'b', '1 hour', '2 hours')", "off"},
		{"a repeated request", "SELECT coord.take_1('k', 'a', '2 hours', false)", "on"},
		{"a renewal", "SELECT coord.renew_3(ARRAY['k'::bytea], ARRAY['a'], ARRAY['1 hour'::interval], true)", "on"},
		{"a release, until it is confirmed", "SELECT coord.unlock_2('k', 'a', '0', true)", "off"},
		{"the grant of a waiter", "SELECT coord.resume_1('k', 'b', '1 hour', '1 hour')", "on"},
		{"a release for which nobody waits", "SELECT coord.unlock_2('k', 'b', '0', true)", "on"},
		{"another grant", "SELECT coord.take_1('k', 'c', '1 hour', false)", "on"},
		{"another place", "SELECT coord.queue_1('k', 'd', '1 hour', '1 hour')", "off"},
		{"a delayed release", "SELECT coord.unlock_2('k', 'c', '1 hour', true)", "on"},
		{"a place that is left", "SELECT coord.unlock_2('k', 'd', '0', true)", "off"},
	} {
		if got := durable(step.what, step.sql); got != step.want {
			t.Errorf("%s: synchronous_commit %s, want %s", step.what, got, step.want)
		}
	}
}

// A clock that was an hour ahead, and is set back: nobody is in the way for longer than its own TTL.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	ahead := func(table string) {
		admin(t, superuser(t, srv.Addr), "UPDATE coord."+table+" SET until = until + interval '1 hour'")
	}
	dead, waiter := request("dead", 50*time.Millisecond), request("waiter", time.Minute)
	before := mustTry(t, b, "k", dead)
	ahead("locks")
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	if g, err := b.Lock(ctx, "k", waiter, func() {}); err != nil || g.Token <= before.Token {
		t.Fatalf("after a dead holder from the future: %+v, %v", g, err)
	}
	ahead("locks")
	if g, err := b.Renew(ctx, "k", waiter); err != nil || g.TTL > waiter.TTL {
		t.Errorf("a renewal of a hold from the future: %+v, %v, want at most %v", g, err, waiter.TTL)
	}
	ahead("locks")
	if h := must[driver.Holder](t)(b.Inspect(ctx, "k")); h.TTL > waiter.TTL {
		t.Errorf("Inspect says that %v are left of %v", h.TTL, waiter.TTL)
	}
	mustQueue(t, b, "k", request("dead first", time.Hour))
	if err := b.Unlock(ctx, "k", waiter.ID); err != nil {
		t.Fatal(err)
	}
	ahead("waiters")
	mustTry(t, b, "k", request("next", time.Minute))
}
