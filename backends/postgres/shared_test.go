package postgres

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/holders"
)

func sharing(name string, share driver.Share) driver.Request {
	r := request(name, time.Hour)
	r.Share = share
	return r
}

// Whoever wants to share a key has its row locked, and renewals do without it.
func TestRenewalsOfSharersWaitForNobody(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	var held []driver.Hold
	for i := range 64 {
		r := sharing(fmt.Sprint("permit", i), driver.Share{Mode: driver.Permits, Weight: 1, Of: 64})
		if g := mustTry(t, b.Shared(), "k", r); g.Slot != i || g.Of != 64 {
			t.Errorf("permit %d: %+v", i, g)
		}
		held = append(held, driver.Hold{Key: "k", Request: r})
	}
	tx := must[pgx.Tx](t)(b.pool.Begin(t.Context()))
	must[pgconn.CommandTag](t)(tx.Exec(t.Context(), "SELECT FROM coord.shares FOR UPDATE"))
	for i, r := range b.Shared().RenewAll(t.Context(), held) {
		if r.Err != nil || r.Grant.Slot != i || r.Grant.Of != 64 {
			t.Errorf("Renew of permit %d: %+v", i, r)
		}
	}
	if err := b.Shared().Unlock(t.Context(), "k", held[5].ID); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if g := mustTry(t, b.Shared(), "k", sharing("next", held[0].Share)); g.Slot != 5 {
		t.Errorf("slot %d, want 5, which is free", g.Slot)
	}
}

// A renewal that is on its way when the lease ends counts, or nothing is renewed: nobody is granted what is renewed.
func TestRenewalOfASharerOnItsWay(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	held, writer := sharing("reader", driver.Share{Mode: driver.Read}), sharing("writer", driver.Share{Mode: driver.Write})
	held.TTL = 300 * time.Millisecond
	mustTry(t, b.Shared(), "k", held)
	tx := must[pgx.Tx](t)(b.pool.Begin(t.Context()))
	var slot *int
	const renew = "SELECT has_slot FROM coord.renew_shares_1(ARRAY['k'::bytea], ARRAY[$1], ARRAY['1 hour'::interval], ARRAY['read'], ARRAY[0::bigint], true)"
	err := tx.QueryRow(t.Context(), renew, held.ID).Scan(&slot)
	renewed := err == nil && slot != nil // on a busy machine the lease may have ended
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	for live := 1; live > 0; {
		live = len(must[[]driver.Holder](t)(b.Shared().Holders(t.Context(), "k")))
	}
	tried := make(chan error, 1)
	go func() {
		_, err := b.Shared().TryLock(t.Context(), "k", writer)
		tried <- err
	}()
	if renewed {
		untilBlocked(t, b, 1)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-tried; errors.Is(err, driver.ErrLocked) != renewed {
		t.Errorf("a writer beside a reader that was renewed (%v): %v", renewed, err)
	}
}

// A key has so many holders and no more.
func TestMostHolders(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	mustTry(t, b.Shared(), "k", sharing("reader", driver.Share{Mode: driver.Read}))
	admin(t, superuser(t, srv.Addr), fmt.Sprintf("INSERT INTO coord.holders SELECT key, id || n, token, mode, weight, bound, n, broken, until, ttl FROM coord.holders, generate_series(1, %d) AS n", driver.MaxHolders-2))
	if g := mustTry(t, b.Shared(), "k", sharing("last", driver.Share{Mode: driver.Read})); g.Slot != driver.MaxHolders-1 {
		t.Errorf("slot %d, want %d", g.Slot, driver.MaxHolders-1)
	}
	if _, err := b.Shared().TryLock(t.Context(), "k", sharing("one-more", driver.Share{Mode: driver.Read})); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("one more than %d: %v, want ErrUnsupported", driver.MaxHolders, err)
	}
}

// The server decides as package holders does.
func TestSharersAsInPackageHolders(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	rules := holders.Rules{MaxHolders: driver.MaxHolders, ClockTokens: true}
	share := []driver.Share{{Mode: driver.Permits, Weight: 1, Of: 3}, {Mode: driver.Permits, Weight: 2, Of: 3}, {Mode: driver.Permits, Weight: 1, Of: 2}}
	rw := []driver.Share{{Mode: driver.Read}, {Mode: driver.Read}, {Mode: driver.Write}}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for key, shares := range map[string][]driver.Share{"permits": share, "readers": rw} {
		var record holders.Record
		requests := make([]driver.Request, 6)
		for i := range requests {
			requests[i] = sharing(string(rune('a'+i)), shares[0])
		}
		for step := range 100 {
			i := random.IntN(len(requests))
			r, now := &requests[i], time.Now()
			var g, want driver.Grant
			var err, wantErr error
			what := "TryLock"
			switch random.IntN(5) {
			case 0:
				what, err, wantErr = "Unlock", b.Shared().Unlock(t.Context(), key, r.ID), record.Unlock(r.ID, now, rules)
			case 1:
				r.Share = shares[random.IntN(len(shares))]
				what = "Renew"
				g, err = b.Shared().Renew(t.Context(), key, *r)
				want, wantErr = record.Renew(*r, now, rules)
			case 2:
				if random.IntN(3) > 0 {
					continue
				}
				what, err, wantErr = "Break", b.Shared().Break(t.Context(), key, r.ID), record.Break(r.ID, now, rules)
				*r = sharing(string(rune('a'+i)), r.Share) // the id is used up
			default:
				r.Share = shares[random.IntN(len(shares))]
				g, err = b.Shared().TryLock(t.Context(), key, *r)
				want, wantErr = record.TryLock(*r, now, rules)
			}
			for _, kind := range []error{driver.ErrLocked, driver.ErrNotHeld} {
				if errors.Is(err, kind) != errors.Is(wantErr, kind) || err != nil && wantErr == nil {
					t.Fatalf("seed %d, step %d of %s: %s: %v, want %v", seed, step, key, what, err, wantErr)
				}
			}
			if g.Slot != want.Slot || g.Of != want.Of {
				t.Fatalf("seed %d, step %d of %s: %s: %+v, want %+v", seed, step, key, what, g, want)
			}
			live, model := must[[]driver.Holder](t)(b.Shared().Holders(t.Context(), key)), record.Live(now)
			for j := range min(len(live), len(model)) {
				live[j].TTL, live[j].Token = model[j].TTL, model[j].Token
			}
			if fmt.Sprint(live) != fmt.Sprint(model) {
				t.Fatalf("seed %d, step %d of %s: after %s: %+v, want %+v", seed, step, key, what, live, model)
			}
		}
	}
}
