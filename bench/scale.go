package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/bench"
)

// scaleStores are the stores on which it is measured how cost grows.
var scaleStores = []string{"memory", "file", "redis", "etcd", "zookeeper", "memcached"}

// scaleSize is how far a run goes.
type scaleSize struct {
	items   []int // keys held, and keys limited
	slow    []int // the same, on stores where each write is agreed upon
	waiters []int
	clients []int
	box     time.Duration // for the filling of one step
	wait    time.Duration // for which waiters are watched
	phase   time.Duration // for which each use by many clients is measured
	ttl     time.Duration
}

var scaleSizes = map[string]scaleSize{
	"full": {
		items: []int{10, 100, 1000, 10_000, 100_000}, slow: []int{10, 100, 1000, 10_000, 30_000},
		waiters: []int{1, 10, 100, 1000, 2000}, clients: []int{1, 2, 4, 8, 16, 32, 64},
		box: 40 * time.Second, wait: time.Second, phase: 500 * time.Millisecond, ttl: coord.DefaultTTL,
	},
	"quick": {
		items: []int{100, 1000, 10_000}, slow: []int{100, 1000, 3000},
		waiters: []int{10, 100, 1000}, clients: []int{1, 4, 16},
		box: 5 * time.Second, wait: 300 * time.Millisecond, phase: 200 * time.Millisecond, ttl: 5 * time.Second,
	},
	"tiny": {
		items: []int{10, 30, 100}, slow: []int{10, 30, 100},
		waiters: []int{4, 8, 16}, clients: []int{1, 2, 3},
		box: 5 * time.Second, wait: 50 * time.Millisecond, phase: 50 * time.Millisecond, ttl: 4 * time.Second,
	},
}

// steps are the numbers of items on a store.
func (z scaleSize) steps(store string) []int {
	if store == "etcd" || store == "zookeeper" {
		return z.slow
	}
	return z.items
}

// scaler measures how cost grows.
type scaler struct {
	size   scaleSize
	mode   string
	stores []string
	run    *regexp.Regexp // of series/store/subject
	out    string
	page   string
	only   bool
	keep   bool
	log    *os.File
}

func parseScale(args []string) (*scaler, error) {
	s := &scaler{log: os.Stderr}
	flags := flag.NewFlagSet("bench scale", flag.ContinueOnError)
	flags.StringVar(&s.mode, "mode", "full", "how far it goes: full, quick or tiny")
	run := flags.String("run", "", "only what matches this regular expression: series/store/subject")
	stores := flags.String("stores", strings.Join(scaleStores, ","), "the stores, by commas")
	flags.StringVar(&s.out, "out", "results/scaling.json", "where the results are written, and read with -only-page and -keep")
	flags.StringVar(&s.page, "docs", "", "the directory whose scaling-figures.md and plots are written; none by default")
	flags.BoolVar(&s.only, "only-page", false, "measure nothing: make the page of the results that are there")
	flags.BoolVar(&s.keep, "keep", false, "keep of the results that are there what is not measured again")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var known bool
	if s.size, known = scaleSizes[s.mode]; !known || flags.NArg() > 0 {
		return nil, errors.New("want -mode full, quick or tiny, and no arguments")
	}
	s.stores = strings.Split(*stores, ",")
	var err error
	s.run, err = regexp.Compile(*run)
	return s, err
}

func scaleMain(ctx context.Context, args []string) error {
	s, err := parseScale(args)
	if err != nil {
		return err
	}
	if !s.only {
		r := s.measure(ctx)
		if s.keep {
			old, err := readScale(s.out)
			if err != nil {
				return err
			}
			r.keep(old)
		}
		if err := r.write(s.out); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if s.page == "" {
		return nil
	}
	r, err := readScale(s.out)
	if err != nil {
		return err
	}
	return writeScalePage(r, s.page)
}

// growing is something whose cost may grow with a number.
type growing struct {
	name, title string
	about       string // Markdown, for the page
	item        string // what there is N of
	takes       func(store string) bool
	subjects    []string // ways to do it; the first is the usual one
	measure     func(context.Context, *scaler, *store, *Series) error
	chief, axis string // the figure that is drawn, and its unit
	columns     []column
	rules       []rule
}

// allGrowing are the series, in the order of the page.
func allGrowing() []*growing {
	return []*growing{heldGrowing(), waitersGrowing(), clientsGrowing(), keysGrowing()}
}

func growingNamed(name string) *growing {
	for _, g := range allGrowing() {
		if g.name == name {
			return g
		}
	}
	return nil
}

// measure runs every series on every store, each on a server of its own.
func (s *scaler) measure(ctx context.Context) *Scale {
	r := &Scale{Schema: scaleSchema, Mode: s.mode, Date: time.Now().UTC().Truncate(time.Second), Machine: bench.ThisMachine(), Stores: map[string]string{}}
	for _, g := range allGrowing() {
		for _, name := range s.stores {
			for _, subject := range g.subjects {
				if ctx.Err() != nil || !g.takes(name) || !claimed(name, subject) || !s.run.MatchString(g.name+"/"+name+"/"+subject) {
					continue
				}
				r.Series = append(r.Series, s.one(ctx, g, name, subject, r.Stores))
			}
		}
	}
	r.LoadAfter = bench.LoadAverage()
	r.Took = time.Since(r.Date).Round(time.Second).Seconds()
	return r
}

// one measures one series. What fails is told in its Failed.
func (s *scaler) one(ctx context.Context, g *growing, name, subject string, versions map[string]string) *Series {
	series := &Series{Name: g.name, Store: name, Subject: subject, Date: time.Now().UTC().Truncate(time.Second), Load: bench.LoadAverage()}
	began := time.Now()
	err := s.onServer(ctx, name, func(st *store) error {
		versions[name] = st.version
		return g.measure(ctx, s, st, series)
	})
	if err != nil {
		series.Failed = oneLine(err)
		fmt.Fprintf(s.log, "%-8s %-10s %-8s failed: %s\n", g.name, name, subject, series.Failed)
	}
	series.Took = time.Since(began).Round(time.Millisecond).Seconds()
	return series
}

// onServer runs fn with a server of its own.
func (s *scaler) onServer(ctx context.Context, name string, fn func(*store) error) (err error) {
	tb := newTB(ctx)
	defer tb.end()
	defer tb.catch(&err)
	st, err := openStore(tb, name)
	if err != nil {
		return err
	}
	return fn(st)
}

// point notes the figures at a step.
func (s *scaler) point(series *Series, n int, f figures) {
	for name, v := range f {
		f[name] = rounded(v)
	}
	series.Points = append(series.Points, Point{N: n, Figures: f})
	var told []string
	for _, c := range growingNamed(series.Name).columns {
		if v, ok := f[c.figure]; ok {
			told = append(told, c.title+" "+bench.Figure(v))
		}
	}
	fmt.Fprintf(s.log, "%-8s %-10s %-8s %7d: %s\n", series.Name, series.Store, series.Subject, n, strings.Join(told, ", "))
}
