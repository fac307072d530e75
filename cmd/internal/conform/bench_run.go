package conform

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/cmd/internal/cli"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/bench"
	"github.com/coordgo/coord/observe"
)

// benchRun is a run of coord-conform bench.
type benchRun struct {
	cfg    *config.Config
	flags  benchFlags
	prefix string
	store  driver.Info
}

// benchReport is what a run has found, and what --json writes.
type benchReport struct {
	Schema   int           `json:"schema"`
	Date     time.Time     `json:"date"`
	Complete bool          `json:"complete"` // nothing was left out, and no signal came
	URL      string        `json:"url"`
	Store    string        `json:"store"`
	Server   string        `json:"server,omitempty"`
	Machine  bench.Machine `json:"machine"`
	ForMS    int64         `json:"for_ms"`
	Results  []benchResult `json:"results"`
}

// benchResult is one of them.
type benchResult struct {
	Name   string `json:"name"`
	About  string `json:"about"`
	Failed string `json:"failed,omitempty"`
	benchFigures
}

func (r *benchReport) overlaps() (n int) {
	for _, one := range r.Results {
		if one.Overlaps != nil {
			n += *one.Overlaps
		}
	}
	return n
}

// measure opens the store once, to see that it is there, and measures one thing after another
// until ctx ends. It gives no report if there is nothing to tell. The error is that of the first
// that failed.
func measure(ctx context.Context, a *cli.App, b *benchRun) (*benchReport, error) {
	first, err := b.open(ctx, 1)
	if err != nil {
		return nil, err
	}
	b.store = first[0].Info()
	closeAll(first)
	r := &benchReport{
		Schema: 1, Date: time.Now().UTC().Truncate(time.Second), Store: b.store.Name, Server: b.store.Server,
		Machine: bench.ThisMachine(), ForMS: b.flags.forEach.Milliseconds(),
	}
	show := newBenchScreen(a, b, r)
	var failed error
	for i, t := range benchTasks() {
		if !b.flags.match.MatchString(t.name) {
			continue
		}
		show.begin(t)
		f, err := t.measure(ctx, b, t.name+"-"+strconv.Itoa(i))
		if ctx.Err() != nil {
			show.clear()
			return r, err // what was interrupted would be told as less than it is
		}
		one := benchResult{Name: t.name, About: t.about, benchFigures: f}
		if err != nil {
			one.Failed = cli.OneLine(err)
			if failed == nil {
				failed = fmt.Errorf("%s: %w", t.name, err)
			}
		}
		r.Results = append(r.Results, one)
		show.end(one)
	}
	r.Complete = b.flags.only == "" && failed == nil
	return r, failed
}

// open makes clients, as if each were another process's.
func (b *benchRun) open(ctx context.Context, n int, opts ...coord.Option) (list []*coord.Client, err error) {
	opts = append([]coord.Option{coord.WithPrefix(b.prefix), coord.WithFailurePolicy(coord.FailClosed), coord.WithLockDefaults(coord.TTL(30 * time.Second))}, opts...)
	for range n {
		c, err := cli.OpenConfig(ctx, b.cfg, opts...)
		if err != nil {
			closeAll(list)
			return nil, err
		}
		list = append(list, c.Client)
	}
	return list, nil
}

// closeAll closes clients whose locks are free. Nothing is lost that was measured.
func closeAll(list []*coord.Client) {
	var wg sync.WaitGroup
	for _, c := range list {
		wg.Go(func() { _ = c.Close() })
	}
	wg.Wait()
}

// callCounter counts the calls of the store.
type callCounter struct{ n atomic.Int64 }

func (c *callCounter) option() coord.Option {
	return coord.WithObserver(observe.Observer{StoreCalled: func(context.Context, observe.StoreCall) { c.n.Add(1) }})
}

func (c *callCounter) count() float64 { return float64(c.n.Load()) }

// counting tells how many calls of the store an operation takes; nil if there was none.
func (b *benchRun) counting(ctx context.Context, clients int, do func(context.Context, []*coord.Client) (ops int, err error)) (*float64, error) {
	calls := new(callCounter)
	list, err := b.open(ctx, clients, calls.option())
	if err != nil {
		return nil, err
	}
	defer closeAll(list)
	ops, err := do(ctx, list)
	if err != nil || ops == 0 {
		return nil, err
	}
	return some(calls.count() / float64(ops)), nil
}

// resetTime bounds the clearing up after limits, whose keys expire anyway.
const resetTime = 10 * time.Second

// resetKeys removes the limits that a load has made.
func resetKeys(ctx context.Context, c *coord.Client, limit coord.Limit, load bench.LimitLoad) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resetTime)
	defer cancel()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(16, load.Keys) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= load.Keys {
					return
				}
				_ = c.Reset(ctx, load.Key+"-"+strconv.Itoa(i), limit) // it expires
			}
		})
	}
	wg.Wait()
}
