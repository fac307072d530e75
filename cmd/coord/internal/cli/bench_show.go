package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// benchScreen tells of a run while it goes on.
type benchScreen struct {
	a     *app
	each  time.Duration
	live  bool
	began chan struct{} // closed when what is measured has ended
	ended chan struct{} // closed when nothing is drawn any more
}

func (a *app) newBenchScreen(b *benchRun, r *benchReport) *benchScreen {
	name := b.cfg.URL.String()
	if r.Store == "memory" {
		name = "memory://"
	}
	if r.Server != "" {
		name += " (" + r.Server + ")"
	}
	a.printf("coord bench on %s, %d CPUs, %v each. The keys begin with %s\n\n", name, runtime.NumCPU(), b.flags.forEach, b.prefix)
	return &benchScreen{a: a, each: b.flags.forEach, live: onTerminal()}
}

// begin shows on a terminal what is being measured, and for how long.
func (s *benchScreen) begin(t benchTask) {
	if !s.live {
		return
	}
	s.began, s.ended = make(chan struct{}), make(chan struct{})
	start := time.Now()
	go func() {
		defer close(s.ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			took := time.Since(start)
			filled := min(int(20*took/(s.each+1)), 20)
			s.a.printf("\r%-15s %s%s %4.1fs  %s"+lineRest, t.name, strings.Repeat("█", filled), strings.Repeat("░", 20-filled), took.Seconds(), t.about)
			select {
			case <-tick.C:
			case <-s.began:
				return
			}
		}
	}()
}

// clear removes what begin shows.
func (s *benchScreen) clear() {
	if s.live {
		close(s.began)
		<-s.ended
		s.a.printf("\r" + lineRest)
	}
}

// end tells what was found.
func (s *benchScreen) end(r benchResult) {
	s.clear()
	s.a.printf("%-15s %s\n%-15s   %s\n", r.Name, r.About, "", r.text())
}

// text is the figures in a line.
func (r *benchResult) text() string {
	if r.Failed != "" {
		return "failed: " + r.Failed
	}
	var parts []string
	add := func(format string, v *float64) {
		if v != nil {
			parts = append(parts, fmt.Sprintf(format, bench.Figure(*v)))
		}
	}
	took := func(what string, us *float64) {
		if us != nil {
			parts = append(parts, what+" "+microsText(*us))
		}
	}
	add("%s/s", r.PerSecond)
	took("p50", r.P50US)
	took("p99", r.P99US)
	add("fairness %s", r.Fairness)
	add("%s owner changes/s", r.Changes)
	add("%s calls/s while waiting", r.WaitingCalls)
	if r.DrainMS != nil {
		took("all served in", some(*r.DrainMS*1000))
	}
	add("%s calls each", r.Calls)
	add("%s allocations", r.Allocs)
	if r.Overlaps != nil && *r.Overlaps > 0 {
		parts = append(parts, fmt.Sprintf("TWO HELD ONE LOCK, %d times", *r.Overlaps))
	}
	return strings.Join(parts, "  ")
}

// microsText is a time in the unit that fits.
func microsText(us float64) string {
	switch {
	case us < 1:
		return bench.Figure(us*1000) + "ns"
	case us < 1000:
		return bench.Figure(us) + "µs"
	case us < 1_000_000:
		return bench.Figure(us/1000) + "ms"
	}
	return bench.Figure(us/1_000_000) + "s"
}

// charts are how long things take, and how many of them there are in a second.
func (r *benchReport) charts() []*bench.Chart {
	times := &bench.Chart{Title: "coord on " + r.title() + ": how long a Lock, a decision, a hand-over takes", Unit: "µs, median; the line reaches to p99"}
	rates := &bench.Chart{Title: "How many a second", Unit: "holds, decisions a second"}
	locks, limits := bench.Group{Name: "locks"}, bench.Group{Name: "limits"}
	ratesOf := map[string]*bench.Group{"lock": {Name: "locks"}, "limi": {Name: "limits"}}
	for _, one := range r.Results {
		into := &locks
		if strings.HasPrefix(one.Name, "limit") {
			into = &limits
		}
		switch {
		case one.Failed != "":
			into.Bars = append(into.Bars, bench.Bar{Label: one.Name, Failed: "failed"})
			continue
		case one.P50US != nil:
			into.Bars = append(into.Bars, bench.Bar{Label: one.Name, Kind: bench.Ours, Value: *one.P50US, Low: *one.P50US, Up: *one.P99US})
		}
		if one.PerSecond != nil {
			g := ratesOf[one.Name[:4]]
			g.Bars = append(g.Bars, bench.Bar{Label: one.Name, Kind: bench.Ours, Value: *one.PerSecond})
		}
	}
	times.Groups = withBars(locks, limits)
	rates.Groups = withBars(*ratesOf["lock"], *ratesOf["limi"])
	return []*bench.Chart{times, rates}
}

func withBars(groups ...bench.Group) (list []bench.Group) {
	for _, g := range groups {
		if len(g.Bars) > 0 {
			list = append(list, g)
		}
	}
	return list
}

func (r *benchReport) title() string {
	if r.Server != "" {
		return r.Server
	}
	return r.Store
}

var benchPage = template.Must(template.New("bench").Funcs(template.FuncMap{"text": func(r benchResult) string { return r.text() }}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>coord bench: {{.R.Store}}</title>
<style>
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }
td, th { padding: .2rem .8rem .2rem 0; vertical-align: top; text-align: left } svg { max-width: 100%; height: auto }
</style>
<h1>coord on {{.R.Store}}</h1>
<p>{{.R.URL}}{{with .R.Server}}, {{.}}{{end}}, {{.R.Date.Format "2006-01-02 15:04"}} UTC, {{.R.ForMS}} ms each{{if not .R.Complete}}; this is not all that can be measured{{end}}.
{{.R.Machine.CPU}}, {{.R.Machine.Cores}} cores, {{.R.Machine.OS}}/{{.R.Machine.Arch}}, {{.R.Machine.Go}}, load average {{.R.Machine.Load}} when it began.</p>
{{.Plot}}
<table>{{range .R.Results}}
<tr><th>{{.Name}}<td>{{.About}}<br>{{text .}}{{end}}
</table>
`))

// writeFiles writes what the flags ask for.
func (r *benchReport) writeFiles(f benchFlags) error {
	svg := bench.SVG(r.charts()...)
	for kind, path := range f.files {
		if *path == "" {
			continue
		}
		data := svg
		switch kind {
		case "json":
			var err error
			if data, err = json.MarshalIndent(r, "", "  "); err != nil {
				return err
			}
			data = append(data, '\n')
		case "html":
			var b bytes.Buffer
			// The plot is our own, and escapes what it writes.
			if err := benchPage.Execute(&b, map[string]any{"R": r, "Plot": template.HTML(svg)}); err != nil {
				return err
			}
			data = b.Bytes()
		}
		if err := os.WriteFile(*path, data, 0o644); err != nil {
			return fmt.Errorf("--%s: %w", kind, err)
		}
	}
	return nil
}
