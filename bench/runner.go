package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// runner measures everything: it has the stores, and how to measure.
type runner struct {
	*options
	log    io.Writer
	stores map[string]*store
	serial int // of the keys: none is used twice
}

// figures are what one measurement found, by name.
type figures map[string]float64

// absent are the libraries that were to be measured and are not.
var absent = map[string]string{
	"github.com/mennanov/limiters":            "the Go module proxy where this was made does not give it out",
	"github.com/redis/rueidis/rueidislimiter": "a module of its own, which the Go module proxy where this was made does not give out",
}

// all measures every workload, until it is through or ctx ends.
func (b *runner) all(ctx context.Context) *Results {
	r := &Results{
		Schema: schema, Date: time.Now().UTC().Truncate(time.Second), Machine: bench.ThisMachine(),
		Libraries: versions(b.suite.subjects()), Stores: map[string]string{}, Absent: b.suite.absent,
		Rounds: b.rounds, ForMS: b.forEach.Milliseconds(), Run: b.run.String(),
	}
	for name, s := range b.stores {
		r.Stores[name] = s.version
	}
	for _, w := range b.suite.workloads() {
		r.Rows = append(r.Rows, b.workload(ctx, w)...)
	}
	r.LoadAfter = bench.LoadAverage()
	r.Took = time.Since(r.Date).Round(time.Second).Seconds()
	r.Complete = ctx.Err() == nil && r.Run == "" && b.rounds >= 5 && b.forEach >= time.Second && len(b.stores) == len(b.suite.stores)
	return r
}

// entry is a subject whose rounds are being measured.
type entry struct {
	subject
	st       *store
	rounds   []figures // nil where one failed
	failures []string
}

// workload measures all subjects in turn: A B C, A B C; each round begins with another.
func (b *runner) workload(ctx context.Context, w *workload) (rows []Row) {
	var entries []*entry
	for _, s := range b.suite.subjects() {
		st := b.stores[s.store]
		if st != nil && w.takes(s) && b.run.MatchString(w.name+"/"+s.store+"/"+s.name) {
			entries = append(entries, &entry{subject: s, st: st})
		}
	}
	rounds := b.rounds
	if w.halfRounds {
		rounds = (rounds + 1) / 2
	}
	for round := range rounds {
		for i := range entries {
			if ctx.Err() != nil {
				break
			}
			b.measureOne(ctx, w, entries[(i+round)%len(entries)])
		}
	}
	for _, e := range entries {
		rows = append(rows, w.row(e, w.baseOf(entries, e.store)))
	}
	return rows
}

// baseOf is what the others of a store are compared with.
func (w *workload) baseOf(entries []*entry, store string) *entry {
	i := slices.IndexFunc(entries, func(e *entry) bool { return e.store == store && w.isBase(e.name, e.kind) })
	if i < 0 {
		return nil
	}
	return entries[i]
}

// failuresAtMost is how often a subject is tried again in another round after it failed: each
// time may take as long as the patience.
const failuresAtMost = 2

func (b *runner) measureOne(ctx context.Context, w *workload, e *entry) {
	if len(e.failures) >= failuresAtMost {
		e.rounds = append(e.rounds, nil)
		return
	}
	runtime.GC()
	b.serial++
	m := &measurement{runner: b, entry: e, key: fmt.Sprintf("bench%d", b.serial), forEach: b.forEach}
	if w.share > 0 {
		m.forEach = time.Duration(float64(m.forEach) * w.share)
	}
	f, err := w.measure(ctx, m)
	if err != nil {
		e.failures = append(e.failures, oneLine(err))
		f = nil
	}
	for name, v := range f {
		f[name] = rounded(v)
	}
	e.rounds = append(e.rounds, f)
	fmt.Fprintf(b.log, "%-16s %-10s %-24s %s\n", w.name, e.store, e.name, w.told(f, err))
}

// rounded is v to five digits: more were not measured.
func rounded(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64) // it is a number
	return r
}

// oneLine is an error that fits into a table.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > 200 {
		text = text[:200] + "…"
	}
	return text
}

// told is a line about one measurement.
func (w *workload) told(f figures, err error) string {
	if err != nil {
		return "failed: " + oneLine(err)
	}
	var parts []string
	for _, c := range w.columns {
		if v, ok := f[c.figure]; ok {
			parts = append(parts, c.title+" "+bench.Figure(v))
		}
	}
	return strings.Join(parts, ", ")
}

// row sums the rounds of e up.
func (w *workload) row(e, base *entry) Row {
	row := Row{Workload: w.name, Store: e.store, Subject: e.name, Kind: e.kind, About: e.waits + e.limit, Figures: map[string]bench.Spread{}, Failures: e.failures}
	values := map[string][]float64{}
	for _, f := range e.rounds {
		row.Rounds = append(row.Rounds, f[w.chief]) // 0 of nil
		for name, v := range f {
			values[name] = append(values[name], v)
		}
	}
	for name, v := range values {
		row.Figures[name] = bench.SpreadOf(v)
	}
	if base != nil && base != e && !w.noRatio {
		var bare []float64
		for _, f := range base.rounds {
			bare = append(bare, f[w.chief])
		}
		row.Ratio = w.ratio(row.Rounds, bare)
	}
	return row
}

// ratio is how much worse one is than another, round by round; nil if there is no round of both.
func (w *workload) ratio(one, other []float64) *bench.Spread {
	var ratios []float64
	for i := range min(len(one), len(other)) {
		if one[i] <= 0 || other[i] <= 0 {
			continue
		}
		ratio := one[i] / other[i]
		if !w.lower {
			ratio = 1 / ratio
		}
		ratios = append(ratios, rounded(ratio))
	}
	if len(ratios) == 0 {
		return nil
	}
	s := bench.SpreadOf(ratios)
	return &s
}

// measurement is one round of one subject.
type measurement struct {
	*runner
	*entry
	key     string
	forEach time.Duration
}

// patience is how long after its time an operation counts as hung. Tests have less.
var patience = 10 * time.Second

// counted runs fn and tells what the store was asked meanwhile.
func (m *measurement) counted(fn func() error) (counts, error) {
	before, err := m.st.count()
	if err != nil {
		return counts{}, err
	}
	if err := fn(); err != nil {
		return counts{}, err
	}
	after, err := m.st.count()
	return after.minus(before), err
}

// closing closes a client, and does not wait for one that hangs.
func closing(c io.Closer) {
	done := make(chan error, 1)
	go func() { done <- c.Close() }()
	select {
	case <-done: // whether it worked is not measured
	case <-time.After(5 * time.Second):
	}
}

func (f figures) counts(c counts, ops int) {
	if ops == 0 || c == (counts{}) {
		return
	}
	f["commands"] = c.Commands / float64(ops)
	if c.Reads > 0 {
		f["reads"] = c.Reads / float64(ops)
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func millis(d time.Duration) float64 { return micros(d) / 1000 }

var errNothing = errors.New("nothing was done in the time")
