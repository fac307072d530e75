package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coordgo/coord/internal/bench"
)

const pageName = "performance-peers.md"

// absent are the libraries that were to be measured and are not.
var absent = map[string]string{
	"github.com/mennanov/limiters":                                  "the Go module proxy where this was made does not give it out",
	"github.com/redis/rueidis/rueidislimiter":                       "a module of its own, which the Go module proxy where this was made does not give out",
	"a semaphore of go.etcd.io/etcd/client/v3/experimental/recipes": "it has none; *session keys* is the usual way",
	"shared locks of github.com/go-zookeeper/zk":                    "it has an exclusive `Lock` only",
	"read/write locks on Redis":                                     "redislock, redsync and rueidislock have none",
}

// page is docs/generated/performance-peers.md.
func (r *results) page() []byte {
	var b bytes.Buffer
	r.writeHead(&b)
	r.writeSlower(&b)
	for _, w := range workloads() {
		if rows := r.of(w.name); len(rows) > 0 {
			writeWorkload(&b, rows)
		}
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
}

// of are the rows of a workload.
func (r *results) of(workload string) (rows []*row) {
	for _, row := range r.rows {
		if row.workload.name == workload {
			rows = append(rows, row)
		}
	}
	return rows
}

func (r *results) writeHead(b *bytes.Buffer) {
	m := r.machine
	fmt.Fprintf(b, `# Beside other libraries

This page compares coord with libraries that do the same, and with bare commands, on one set of servers, in turn: A B C,
A B C, %d rounds of %v each. `+"`make bench-peers`"+` makes it. [Performance](../performance.md) says what to expect from
coord alone.

A figure is the median of the rounds. **× bare** is the median of how much slower something is than the bare commands of
the same round: *ratios* carry over to another machine, times and rates do not. Everything has the settings of its own
documents and a lease of 30 s.

Measured on %s: %s, %d cores, %s, %s/%s, Linux %s, %s, which clients and servers share. The load average was %s before
and %s after; it took %s minutes.`, r.rounds, r.forEach, r.date.Format("2006-01-02"), m.CPU, m.Cores, m.Memory, m.OS, m.Arch, m.Kernel, m.Go,
		bench.Figure(m.Load), bench.Figure(r.loadAfter), bench.Figure(r.took.Minutes()))
	if !r.complete {
		b.WriteString(" **This was not the full run**: read it as an outline.")
	}
	if m.Load > float64(m.Cores) {
		b.WriteString(" **The machine did other work meanwhile**: even the ratios are rough.")
	}
	fmt.Fprintf(b, "\n\nStores: %s. Libraries: %s.\n\nNot measured:\n\n", pairs(r.stores), pairs(r.libraries))
	for _, name := range slices.Sorted(maps.Keys(absent)) {
		fmt.Fprintf(b, "- %s: %s\n", name, absent[name])
	}
	b.WriteString(`
*Commands* are those that the server counts for each operation: on Redis those within scripts too (*reads* are what it
read from its sockets: the round trips), on etcd messages, on ZooKeeper packets. *Overlaps* is how often more held a key
than may. What failed, or was not done ten seconds after its time, is told in the tables. *postgres-5ms* is a PostgreSQL
whose commits take 5 ms more, by its commit_delay.

`)
}

func pairs(m map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		text := strings.TrimSpace(name + " " + m[name])
		if strings.HasPrefix(strings.ToLower(m[name]), name) {
			text = m[name]
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// slowerBy is from where on the page says that coord is slower.
const slowerBy = 1.05

// writeSlower lists every library that does better than coord, by the first column.
func (r *results) writeSlower(b *bytes.Buffer) {
	b.WriteString(`## Where coord is slower

Than another library (bare commands, which promise nothing, are in the tables), by the first column and by more than 5 %
in the median of the rounds. How often a contended key is held says little by itself: see the fairness beside it. What
others do on PostgreSQL is written after their published statements. None of it has what coord writes rows for: waiters
in order over all clients, a loss that is told in time, and tokens. An advisory lock writes nothing: it waits for no
disk, and ends with its connection, of which its holder may hear late.

`)
	found := false
	for _, w := range workloads() {
		if lines := slower(r.of(w.name)); len(lines) > 0 {
			found = true
			fmt.Fprintf(b, "- [%s](#%s): %s\n", w.title, anchor(w.title), strings.Join(lines, "; "))
		}
	}
	if !found {
		b.WriteString("Nowhere in this run.\n")
	}
	b.WriteString("\n")
}

func slower(rows []*row) (lines []string) {
	for _, our := range rows {
		var than []string
		for _, their := range rows {
			if our.kind != ours || their.kind != peer || their.store != our.store {
				continue
			}
			if by := our.slowerThan(their); by > slowerBy {
				than = append(than, fmt.Sprintf("%s × %s", bench.Figure(by), their.name))
			}
		}
		if len(than) > 0 {
			lines = append(lines, our.store+", "+our.name+": "+strings.Join(than, ", "))
		}
	}
	return lines
}

// anchor is how a heading is linked to.
func anchor(title string) string {
	keep := func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
			return c
		case c == ' ':
			return '-'
		}
		return -1
	}
	return strings.Map(keep, strings.ToLower(title))
}

func writeWorkload(b *bytes.Buffer, rows []*row) {
	w := rows[0].workload
	ratio := "× bare"
	if w.base != "" {
		ratio = "× " + w.base
	}
	head, line := "| | | |", "| --- | --- | --- |"
	for _, c := range append(slices.Clip(w.columns), column{title: ratio}) {
		head, line = head+" "+c.title+" |", line+" ---: |"
	}
	fmt.Fprintf(b, "## %s\n\n%s\n\n%s\n%s\n", w.title, w.about, head, line)
	for _, row := range rows {
		row.write(b, rows)
	}
	b.WriteString("\n")
	failed := false
	for _, row := range rows {
		if len(row.failures) > 0 {
			failed = true
			fmt.Fprintf(b, "- %s, %s, failed in %d of its rounds: `%s`\n", row.store, row.name, len(row.failures), row.failures[0])
		}
	}
	if failed {
		b.WriteString("\n")
	}
}

// write writes r among the rows of its workload.
func (r *row) write(b *bytes.Buffer, among []*row) {
	name := r.name
	if r.kind == ours {
		name = "**" + name + "**"
	}
	cells := []string{r.store, name, r.about}
	for _, c := range r.workload.columns {
		values := r.values(c.figure)
		switch {
		case len(values) == 0 && len(r.failures) > 0 && len(r.values(r.workload.columns[0].figure)) == 0:
			cells = append(cells, "failed")
		case len(values) == 0:
			cells = append(cells, "–")
		case c.figure == "overlaps": // the worst that was seen
			cells = append(cells, bench.Figure(values[len(values)-1]))
		default:
			cells = append(cells, bench.Figure(bench.Median(values)))
		}
	}
	ratio := ""
	base := slices.IndexFunc(among, func(other *row) bool { return other.store == r.store && r.workload.isBase(other.subject) })
	if base >= 0 {
		if by := r.slowerThan(among[base]); by > 0 {
			ratio = bench.Figure(by)
		}
	}
	b.WriteString("| " + strings.Join(append(cells, ratio), " | ") + " |\n")
}
