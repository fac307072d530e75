package postgres

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/limits"
)

// statementCount counts the statements of a pool.
type statementCount struct{ n atomic.Int64 }

func (c *statementCount) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (c *statementCount) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counted gives a backend, and what gives the number of its statements since the last call.
func counted(t *testing.T, url string) (b *backend, statements func() int64) {
	t.Helper()
	config := must[*pgxpool.Config](t)(pgxpool.ParseConfig(url))
	counter := &statementCount{}
	config.ConnConfig.Tracer = counter
	pool := must[*pgxpool.Pool](t)(pgxpool.NewWithConfig(t.Context(), config))
	t.Cleanup(pool.Close)
	b = unswept(must[driver.Backend](t)(New(pool, WithTimeout(maxTimeout))).(*backend))
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, func() int64 { return counter.n.Swap(0) }
}

// A decision on a state that the client knows is one statement, and so is a denial. Another client's change costs one more.
func TestStatementsOfLimits(t *testing.T) {
	t.Parallel()
	url := appURL(t, server(t).Addr)
	one, statements := counted(t, url)
	two, _ := counted(t, url)
	l := limitOf(t, 5, time.Hour)
	take := func(b *backend, key string, want int) driver.TakenOne {
		t.Helper()
		taken := must[driver.TakenOne](t)(b.TakeOne(t.Context(), key, l, driver.Ask{Min: 1, N: 1}))
		if taken.N != want {
			t.Errorf("%d permits of %s, want %d", taken.N, key, want)
		}
		return taken
	}
	all := func(n int) func() {
		return func() {
			t.Helper()
			demands := []driver.Demand{{Key: "k", Limit: l}, {Key: "m", Limit: l, N: n}, {Key: "n", Limit: l, N: n}}
			if taken := must[[]driver.Taken](t)(one.TakeAll(t.Context(), demands)); taken[1].Asks[0].N != n {
				t.Errorf("%d of %d permits of several limits", taken[1].Asks[0].N, n)
			}
		}
	}
	for quick := false; !quick; { // the estimate of the server's clock is as good as the fastest request
		began := time.Now()
		take(one, rand.Text(), 1)
		quick = time.Since(began) < tooLate/5
	}
	one.clock.server = one.clock.server.Add(50 * time.Millisecond) // the next request comes too early, and waits
	statements()
	for _, step := range []struct {
		name string
		do   func()
		want int64
	}{
		{"a new limit", func() { take(one, "k", 1) }, 1},
		{"a known one", func() { take(one, "k", 1) }, 1},
		{"another client", func() { take(two, "k", 1) }, 0},
		{"a known one after that", func() { take(one, "k", 1) }, 2},
		{"the last permit", func() { take(one, "k", 1) }, 1},
		{"a denial", func() { take(one, "k", 0) }, 1},
		{"a reset by another client", func() {
			if err := two.Reset(t.Context(), "k", l); err != nil {
				t.Error(err)
			}
		}, 0},
		{"what would be denied by what is known", func() { take(one, "k", 1) }, 2},
		{"several, not all known", all(1), 2},
		{"several that are known", all(1), 1},
		{"another client", func() { take(two, "n", 1) }, 0},
		{"several after that", all(1), 3},
	} {
		began := time.Now()
		step.do()
		switch n := statements(); {
		case n > step.want && time.Since(began) >= tooLate:
			t.Logf("%s: not judged: the machine was too slow for one decision", step.name)
		case n != step.want:
			t.Errorf("%s: %d statements, want %d", step.name, n, step.want)
		}
	}
}

// A decision is written though a round trip takes longer than it may be old.
func TestLimitsOnALongWay(t *testing.T) {
	t.Parallel()
	b, link := conformance.TCPFaults(server(t).Addr, func(tb conformance.TB, addr string) driver.Backend {
		return openIn(tb, patientURL(t, addr))
	}).Link(t)
	defer b.Close()
	l := limitOf(t, 100, 1000*time.Hour)
	link.Delay(tooLate)
	for range 3 { // the first knows nothing of the server's clock
		ctx, cancel := context.WithTimeout(t.Context(), hung)
		taken, err := b.TakeOne(ctx, "k", l, driver.Ask{Min: 1, N: 1})
		cancel()
		if err != nil || taken.N != 1 {
			t.Fatalf("%+v, %v", taken, err)
		}
	}
}

// A client whose idea of the server's clock is wrong neither decides by it nor writes it into a state.
func TestWrongClockOfLimits(t *testing.T) {
	t.Parallel()
	b, _ := counted(t, appURL(t, server(t).Addr))
	l := limitOf(t, 2, 1000*time.Hour)
	l.Algorithm = driver.FixedWindow
	ask := driver.Ask{Min: 1, N: 1}
	for i, wrong := range []time.Duration{-2000 * time.Hour, 2000 * time.Hour, -2000 * time.Hour} {
		if _, _, err := b.load(t.Context(), []cell{{}}); err != nil {
			t.Fatal(err)
		}
		b.clock.server = b.clock.server.Add(wrong)
		taken := must[driver.TakenOne](t)(b.TakeOne(t.Context(), "k", l, ask))
		if want := min(1, 2-i); taken.N != want {
			t.Errorf("%d: %d permits by a clock that is %v ahead, want %d", i, taken.N, wrong, want)
		}
	}
}

func limitOf(t *testing.T, rate int, per time.Duration) driver.Limit {
	t.Helper()
	return must[driver.Limit](t)(driver.Limit{Rate: rate, Per: per}.Normal())
}

// A state that the server's clock made when it was an hour ahead is in nobody's way for an hour.
func TestLimitsOfAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr))
	l := must[driver.Limit](t)(driver.Limit{Rate: 10, Per: time.Second, Algorithm: driver.SlidingWindow}.Normal())
	var s limits.State
	ahead := time.Now().Add(time.Hour)
	if out, _ := s.Take(l, ahead.UnixMicro(), driver.Ask{Min: 10, N: 10}); out.N != 10 {
		t.Fatalf("of a fresh limit: %+v", out)
	}
	value := must[[]byte](t)(s.AppendBinary(nil))
	for _, key := range []string{"one", "two", "three"} {
		_, err := b.pool.Exec(t.Context(), "INSERT INTO coord.cells (kind, key, name, version, value, until) VALUES ('limit', $1, $2, 7, $3, $4)",
			pgx.QueryExecModeExec, []byte(key), limits.Name(l), value, ahead.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	for n := 0; n < 10; pause(10 * time.Millisecond) {
		n = must[driver.TakenOne](t)(b.TakeOne(t.Context(), "one", l, driver.Ask{Min: 10, N: 10})).N
		if time.Since(start) > hung {
			t.Fatal("a limit denies")
		}
	}
	for n := 0; n < 10; pause(10 * time.Millisecond) {
		n = must[[]driver.Taken](t)(b.TakeAll(t.Context(), []driver.Demand{{Key: "two", Limit: l, N: 10}, {Key: "three", Limit: l, N: 10}}))[0].Asks[0].N
		if time.Since(start) > hung {
			t.Fatal("several limits deny")
		}
	}
}
