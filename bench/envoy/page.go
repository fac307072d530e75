package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/coordgo/coord/internal/bench"
)

const pageName = "performance-envoy.md"

// page is docs/generated/performance-envoy.md.
func (r *results) page() []byte {
	var b bytes.Buffer
	r.writeHead(&b)
	for _, s := range subjects() {
		fmt.Fprintf(&b, "- %s: %s\n", s.name, s.about)
	}
	title := ""
	for _, c := range r.cells {
		if next := c.title(); next != title {
			title = next
			fmt.Fprintf(&b, "\n## %s\n\n| callers | | a second | × | µs | × | of it Redis | p50, µs | p99, µs |\n%s\n", title, "| ---: | --- |"+strings.Repeat(" ---: |", 7))
		}
		r.write(&b, c)
	}
	r.writeAdmissions(&b)
	return b.Bytes()
}

func (r *results) writeHead(b *bytes.Buffer) {
	m := r.machine
	fmt.Fprintf(b, `# Beside other rate-limit services

This page compares coord, as [Envoy's rate-limit service](../envoy.md), with envoyproxy/ratelimit, and for scale with
gubernator. Each is a process of its own, and all but gubernator count in one Redis. They are measured in turn, A B C,
A B C, %d rounds of %v each. `+"`make bench-envoy`"+` makes this page.

A figure is the median of the rounds, each of which begins with another service. *µs* is the processor time of the
service and Redis together for a decision, as Linux tells it. *×* is the median of how many times the figure of
%s in the same round that is. No limit is reached. Callers share two connections, and each asks again
when it has its answer, for a key that is drawn at random. All have their own defaults, such as 10 connections to Redis
of envoyproxy/ratelimit and 10 for each processor of coord.

Measured on %s: %s, %d cores, %s, %s/%s,
Linux %s, %s, which callers, services and Redis share. The load average was %s before and %s
after; it took %s minutes.`, r.rounds, r.forEach, original, r.date.Format("2006-01-02"), m.CPU, m.Cores, m.Memory, m.OS, m.Arch, m.Kernel, m.Go,
		bench.Figure(m.Load), bench.Figure(r.loadAfter), bench.Figure(r.took.Minutes()))
	if !r.complete {
		b.WriteString("\n**This was not the full run**: read it as an outline.")
	}
	if m.Load > float64(m.Cores) {
		b.WriteString("\n**The machine did other work meanwhile**: even the ratios are rough.")
	}
	b.WriteString("\n\nBeside coord as it was then: " + strings.Join(r.versions, ",\n") + ".\n\n")
}

// title is of the table that a row is in.
func (r row) title() string { return count(r.keys, "key") + ", " + count(r.descriptors, "descriptor") }

func count(n int, of string) string {
	if n > 1 {
		of += "s"
	}
	return bench.Figure(float64(n)) + " " + of
}

// write writes a line of the table.
func (r *results) write(b *bytes.Buffer, c *cell) {
	rate, us := func(f figures) float64 { return f.rate }, func(f figures) float64 { return f.us }
	name, rates, times, redis := c.name, "", "", "–"
	if c.ours {
		name = "**" + name + "**"
	}
	if c.redis {
		redis = bench.Figure(c.median(func(f figures) float64 { return f.redis }))
	}
	for _, other := range r.cells {
		if other.row == c.row && other.name == original && other != c {
			rates, times = bench.Figure(c.times(other, rate)), bench.Figure(c.times(other, us))
		}
	}
	cells := []string{
		fmt.Sprint(c.callers), name, bench.Figure(c.median(rate)), rates, bench.Figure(c.median(us)), times, redis,
		bench.Figure(c.median(func(f figures) float64 { return f.p50 })), bench.Figure(c.median(func(f figures) float64 { return f.p99 })),
	}
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func (r *results) writeAdmissions(b *bytes.Buffer) {
	if len(r.admissions) == 0 {
		return
	}
	fmt.Fprintf(b, `
## What a limit of %s admits

64 callers ask two processes of coord for more than there is. Permits that were taken in advance may be lost: then fewer
are admitted, and never more.

| | asked | admitted |
| --- | ---: | ---: |
`, bench.Figure(most))
	for _, a := range r.admissions {
		fmt.Fprintf(b, "| %s | %d | %d |\n", a.name, a.asked, a.admitted)
	}
}
