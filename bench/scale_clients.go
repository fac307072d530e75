package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/bench"
)

// files is what all together may lose on files: who has the guard of a part may not have a core, where there are more
// processes than these.
var files = map[string]float64{"file": 4}

func clientsGrowing() *growing {
	g := &growing{
		name: "clients", title: "Client processes", item: "processes",
		about: "Processes with one client and four goroutines each, all on this machine: real ones, up to 64. In turn they ping the store (*round trips*), lock a key for each goroutine (*locks*), one key that all want (*hot key*), " +
			"decide on 1,000 keys of a limit (*limits*), on one key (*hot limit*), and on one key with `WithPermitLease` (*leased*). *Fair* is Jain's index over the goroutines, 1 if all had the hot key as often; a client has it for turns of up to 50 ms, of which few fit into a use. " +
			"*Server* and *client* are the processor time of the server and of all clients for one operation. Round trips, locks and limits are measured for longer where sixty-four processes share the cores. " +
			"What even a bare round trip costs more then is the machine's: each time, a process is stopped and another begun, whose memory the caches no longer have.",
		takes: func(store string) bool { return store != "memory" }, subjects: []string{"coord"}, measure: clients,
		chief: "locks_s", axis: "Lock and Unlock of keys of their own, a second, of all processes",
		columns: []column{
			{"pings_s", "round trips a second"},
			{"pings_server_us", "server, µs"},
			{"pings_client_us", "client, µs"},
			{"locks_s", "locks a second"},
			{"locks_server_us", "server, µs"},
			{"locks_client_us", "client, µs"},
			{"hot_s", "hot key, a second"},
			{"hot_jain", "fair"},
			{"limits_s", "limits a second"},
			{"limits_server_us", "server, µs"},
			{"limits_client_us", "client, µs"},
			{"hotlimit_s", "hot limit a second"},
			{"leased_s", "leased a second"},
			{"connections", "connections each"},
			{"overlaps", "overlaps"},
		},
		rules: []rule{
			{timed: true, figure: "locks_s", what: "time from lock to lock of all, µs", rate: true, atMost: 2, atMostOn: files},
			{timed: true, figure: "locks_server_us", bare: "pings_server_us", what: "server's time for a lock, µs", floor: 5, atMost: 2.5},
			{timed: true, figure: "locks_client_us", bare: "pings_client_us", what: "clients' time for a lock, µs", floor: 10, atMost: 2.5},
			{timed: true, figure: "locks_commands", what: "commands for a lock, signs of life included", floor: 0.1, atMost: 2},
			{timed: true, figure: "hot_s", what: "time from hold to hold of the hot key, µs", rate: true, atMost: 8},
			{timed: true, figure: "limits_s", what: "time from decision to decision of all, µs", rate: true, atMost: 2, atMostOn: files},
			{timed: true, figure: "limits_server_us", bare: "pings_server_us", what: "server's time for a decision, µs", floor: 5, atMost: 2.5},
			{figure: "connections", what: "connections for a client", floor: 1, atMost: 1.5},
		},
	}
	return g
}

// phase is one of the uses that processes make of a store, one after the other.
type phase struct {
	name string
	// long is for a use whose cost is judged. The others are of one hot key, on which some wait for as long as it lasts.
	long bool
	do   func(ctx context.Context, j *job, c *coord.Client, words *bench.Words) (*bench.Sample, error)
}

var leasedLimit = coord.Limit{Rate: 1_000_000_000, Per: time.Minute}

func phases() []phase {
	locks := func(key string, keys int) func(context.Context, *job, *coord.Client, *bench.Words) (*bench.Sample, error) {
		return func(ctx context.Context, j *job, c *coord.Client, words *bench.Words) (*bench.Sample, error) {
			load := bench.LockLoad{Load: j.load(), Key: j.Key + key, Keys: 1, First: j.First}
			if keys != 1 {
				load.Key, load.Keys, words = fmt.Sprintf("%s%s-%d", j.Key, key, os.Getpid()), j.Workers, new(bench.Words)
			}
			s, err := bench.Locks(ctx, coordLocks{c}, load, words)
			if err != nil {
				return nil, err
			}
			return s.Sample, nil
		}
	}
	limits := func(key string, keys int, of coord.Limit) func(context.Context, *job, *coord.Client, *bench.Words) (*bench.Sample, error) {
		return func(ctx context.Context, j *job, c *coord.Client, _ *bench.Words) (*bench.Sample, error) {
			s, err := bench.Limits(ctx, coordLimits{c, of}, bench.LimitLoad{Load: j.load(), Key: j.Key + key, Keys: keys, First: j.First})
			if err != nil {
				return nil, err
			}
			return s.Sample, nil
		}
	}
	return []phase{
		{"pings", true, pings},
		{"locks", true, locks("-own", 0)},
		{"hot", false, locks("-hot", 1)},
		{"limits", true, limits("-limits", 1000, ample)},
		{"hotlimit", false, limits("-hotlimit", 1, ample)},
		{"leased", false, limits("-leased", 1, leasedLimit)},
	}
}

// pings are bare round trips: what the machine charges such processes for each.
func pings(ctx context.Context, j *job, c *coord.Client, _ *bench.Words) (*bench.Sample, error) {
	return bench.Run(ctx, j.load(), func(ctx context.Context, _ int) error { return c.Ping(ctx) })
}

func (j *job) load() bench.Load {
	return bench.Load{Workers: j.Workers, For: j.For, Patience: j.Patience, Endless: true}
}

// phaseReply is what a process did in a phase.
type phaseReply struct {
	Ops       int
	PerWorker []int
	Took, CPU time.Duration
}

// lasting is for how long the job is at p. Where many processes share the cores, a long phase is one in which each does
// enough that what it spends once, and what is under way in the end and does not count, are a small part.
func (j *job) lasting(p phase) time.Duration {
	if p.long {
		return j.Long
	}
	return j.For
}

// at is the job as a phase has it.
func (j *job) at(p phase) *job {
	of := *j
	of.For = j.lasting(p)
	return &of
}

// schedule is when each phase begins, and in the end when the last one is over.
func (j *job) schedule() (starts []time.Duration) {
	var at time.Duration
	for _, p := range phases() {
		starts = append(starts, at)
		at += j.lasting(p) + between(j.For)
	}
	return append(starts, at)
}

// between is what lies between two phases: whoever is late in one ends in it.
func between(phase time.Duration) time.Duration { return max(phase/4, 50*time.Millisecond) }

// lasts is how long the job may take.
func (j *job) lasts() time.Duration {
	if j.Kind == "phases" {
		starts := j.schedule()
		return starts[len(starts)-1] + j.Patience
	}
	return j.For + j.Patience
}

// phases is the job of a process that does one after the other, by the clock.
func (j *job) phases(ctx context.Context, st *store, words *bench.Words, in *bufio.Reader, out io.Writer) (*reply, error) {
	c, err := coord.Open(ctx, st.url(), coord.WithPermitLease(coord.PermitLease{}, leasedLimit))
	if err != nil {
		return nil, err
	}
	for i := range j.Workers {
		if err := tryLock(ctx, coordLocks{c}, fmt.Sprintf("%s-warm-%d-%d", j.Key, os.Getpid(), i)); err != nil {
			return nil, err
		}
	}
	if err := j.awaitGo(in, out); err != nil {
		return nil, err
	}
	began := time.Now()
	r, starts := new(reply), j.schedule()
	for i, p := range phases() {
		time.Sleep(time.Until(began.Add(starts[i])))
		before := ownCPU()
		s, err := p.do(ctx, j.at(p), c, words)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		r.Phases = append(r.Phases, phaseReply{s.Ops, s.PerWorker, s.Took, ownCPU() - before})
	}
	return r, nil
}

func clients(ctx context.Context, s *scaler, st *store, series *Series) error {
	for i, n := range s.size.clients {
		f, err := s.clientsOf(ctx, st, n, fmt.Sprintf("c%d", i))
		if err != nil {
			return fmt.Errorf("%d clients: %w", n, err)
		}
		s.point(series, n, f)
	}
	return nil
}

func (s *scaler) clientsOf(ctx context.Context, st *store, n int, key string) (figures, error) {
	path, words, remove, err := newWords()
	if err != nil {
		return nil, err
	}
	defer remove()
	const each = 4
	long := s.size.phase * time.Duration(max(1, n/32))
	jobs := make([]job, n)
	for i := range jobs {
		jobs[i] = job{
			Kind: "phases", Store: st.name, Addr: st.addr, Key: key, Words: path, Workers: each, First: i * each, For: s.size.phase, Long: long, Patience: patience,
		}
	}
	idle := st.connections()
	ws, err := launch(ctx, jobs)
	if err != nil {
		return nil, err
	}
	seen := st.watchPhases(&jobs[0])
	all, err := replies(ctx, ws)
	if err != nil {
		return nil, err
	}
	f := figures{"overlaps": float64(words.Register().Overlaps())}
	if st.pid != 0 {
		f["connections"] = float64(seen[3].connections-idle) / float64(n)
	}
	for i, p := range phases() {
		f.phase(p.name, i, all, seen[i], seen[i+1])
	}
	return f, nil
}

// moment is what a server had done at a time.
type moment struct {
	counts
	cpu         time.Duration
	idle        time.Duration // of all cores
	connections int
	at          time.Time
}

// watchPhases looks at the server before each phase, and after the last.
func (s *store) watchPhases(j *job) (list []moment) {
	look := func() {
		c, _ := s.count() // without it there are no counts
		list = append(list, moment{c, cpuOf(s.pid), idleTime(), s.connections(), time.Now()})
	}
	began := time.Now()
	look()
	for _, start := range j.schedule()[1:] {
		time.Sleep(time.Until(began.Add(start - between(j.For)/3)))
		look()
	}
	return list
}

// phase notes what all processes did in one phase.
func (f figures) phase(name string, i int, all []reply, before, after moment) {
	var ops int
	var rate float64
	var cpu time.Duration
	var per []int
	for _, r := range all {
		p := r.Phases[i]
		sum := 0
		for _, n := range p.PerWorker {
			sum += n
		}
		rate += float64(sum) / p.Took.Seconds()
		ops += sum
		cpu += p.CPU
		per = append(per, p.PerWorker...)
	}
	if ops == 0 {
		return
	}
	f[name+"_s"] = rate
	f[name+"_client_us"] = micros(cpu) / float64(ops)
	f[name+"_client_cpu"] = cpu.Seconds() / all[0].Phases[i].Took.Seconds()
	f[name+"_jain"] = bench.Jain(per)
	if server := after.cpu - before.cpu; server > 0 {
		f[name+"_server_us"] = micros(server) / float64(ops)
		f[name+"_server_cpu"] = server.Seconds() / all[0].Phases[i].Took.Seconds()
	}
	if after.idle > 0 {
		f[name+"_idle"] = (after.idle - before.idle).Seconds() / after.at.Sub(before.at).Seconds()
	}
	if asked := after.minus(before.counts).requests(); asked > 0 {
		f[name+"_commands"] = asked / float64(ops)
	}
}
