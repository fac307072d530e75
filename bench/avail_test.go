package main

import (
	"cmp"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// door is a lock that lets everybody in.
type door struct{}

func openDoor(context.Context, *store, time.Duration) (availLock, error) { return door{}, nil }

func (door) lock(context.Context, string) (availHeld, error) { return door{}, nil }
func (door) err() error                                      { return nil }
func (door) unlock(context.Context) error                    { return nil }

// openDoorCandidate lets everybody lead.
func openDoorCandidate(context.Context, *store, time.Duration) (availCandidate, error) {
	return door{}, nil
}

func (door) lead(ctx context.Context, _ string, fn func(context.Context) error) error { return fn(ctx) }

// Each seed has one plan, in order, with every kind of fault.
func TestFaultPlan(t *testing.T) {
	plan := faultPlan(1, 40*time.Second, time.Second)
	if !slices.Equal(plan, faultPlan(1, 40*time.Second, time.Second)) || slices.Equal(plan, faultPlan(2, 40*time.Second, time.Second)) {
		t.Error("a seed is not the same plan each time, or two seeds are one")
	}
	var kills, stops, freezes int
	for i, f := range plan {
		if i > 0 && f.At < plan[i-1].At {
			t.Errorf("fault %d comes at %v, after one at %v", i, f.At, plan[i-1].At)
		}
		switch {
		case f.Kill:
			kills++
		case f.Worker == storeFault:
			stops++
		default:
			freezes++
		}
	}
	if kills != 9 || stops != 4 || freezes < 16 {
		t.Errorf("%d kills, %d stops of the store, %d of processes", kills, stops, freezes)
	}
}

// The plan for leaders has the faults of the one for locks, kills up to a second later, hits the leader every other time, and makes it resign.
func TestLeadPlan(t *testing.T) {
	plain, plan := faultPlan(1, 40*time.Second, time.Second), leadPlan(1, 40*time.Second, time.Second)
	var faults []fault
	var part time.Duration // of a period, after which processes are killed
	var kills, freezes, resigns int
	for _, f := range plan {
		switch {
		case f.Resign:
			resigns++
			continue
		case f.Leader && f.Kill:
			kills++
		case f.Leader:
			freezes++
		}
		f.Leader = false
		if f.Kill {
			part += f.At % (4 * time.Second)
			f.At = f.At.Truncate(4 * time.Second)
		}
		faults = append(faults, f)
	}
	inOrder := func(a, b fault) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.For, b.For)) }
	slices.SortStableFunc(faults, inOrder)
	slices.SortStableFunc(plain, inOrder)
	if part == 0 || !slices.Equal(faults, plain) {
		t.Error("the faults are not those of the plan for locks")
	}
	if kills != 5 || resigns != 10 || freezes < 8 || freezes > len(plain)/2 {
		t.Errorf("the leader is killed %d times, frozen %d times and resigns %d times", kills, freezes, resigns)
	}
}

// A fault of the leader hits the process that told last that it leads, and another if nobody does.
func TestVictim(t *testing.T) {
	var r availRunner
	for i := range r.now {
		r.now[i] = &availProcess{place: i}
	}
	f := fault{Worker: 5, Leader: true}
	if got := r.victim(f); got != 5 {
		t.Errorf("nobody leads: it hits %d, want 5", got)
	}
	r.now[2].open, r.now[3].open = &heldSpan{span: span{from: 7}}, &heldSpan{span: span{from: 4}}
	if got := r.victim(f); got != 2 {
		t.Errorf("2 leads, and 3 has not told its loss: it hits %d, want 2", got)
	}
	r.now[2].frozen = []span{{8, 9}}
	if got := r.victim(f); got != 3 {
		t.Errorf("2 has told nothing since it was frozen: it hits %d, want 3", got)
	}
	r.now[2].open.sure = 10
	if got := r.victim(f); got != 2 {
		t.Errorf("2 leads again: it hits %d, want 2", got)
	}
	if got := r.victim(fault{Worker: 5}); got != 5 {
		t.Errorf("it is not of the leader: it hits %d, want 5", got)
	}
}

// A kind that is run leaves the results of the other as they are.
func TestAvailResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	all, err := readAvailResults(path)
	if err != nil || len(all) != 0 {
		t.Fatalf("no file: %v, %v", all, err)
	}
	all["lead"], all["availability"] = &Results{Schema: schema, Took: 1}, &Results{Schema: schema, Took: 2}
	if err := all.write(path); err != nil {
		t.Fatal(err)
	}
	if all, err = readAvailResults(path); err != nil || all["lead"].Took != 1 || all["availability"].Took != 2 {
		t.Errorf("%v, %v", all, err)
	}
	for _, args := range [][]string{{"-kinds", "semaphores"}, {"-kinds", ""}} {
		if _, err := parseAvail(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	if o, err := parseAvail([]string{"-kinds", "leaders"}); err != nil || !slices.Equal(o.kinds, []*workload{leadWorkload}) {
		t.Errorf("%v, %v", o, err)
	}
}

// A process that is to be frozen while it is frozen is frozen once more afterwards, and not woken in between.
func TestFreezeOnceAtATime(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() // it was killed
	defer cmd.Process.Kill()
	p := &availProcess{worker: &worker{cmd: cmd}}
	r := &availRunner{d: time.Hour, began: time.Now()}
	r.now[0] = p
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := r.freezeProcess(t.Context(), fault{For: time.Millisecond}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i, f := range p.frozen {
		if i > 0 && f.from < p.frozen[i-1].to {
			t.Errorf("it was frozen at %v and woken at %v, and again from %v to %v", p.frozen[i-1].from, p.frozen[i-1].to, f.from, f.to)
		}
	}
}

// The figures of a run are those of its holds: a lost hold ends where its process was frozen, and a
// frozen holder is not alive.
func TestAvailFigures(t *testing.T) {
	const s = time.Second
	a, b := &availProcess{place: 0}, &availProcess{place: 1}
	b.frozen = []span{{3 * s, 6 * s}}
	lost := heldSpan{span{2 * s, 6 * s}, b, true, 0}
	for _, test := range []struct {
		name            string
		holds           []heldSpan
		share, overlaps float64
		max             float64
	}{
		{"nobody", nil, 0, 0, 10000},
		{"two in turn", []heldSpan{{span{0, 5 * s}, a, false, 0}, {span{5 * s, 10 * s}, a, false, 0}}, 1, 0, 0},
		{"lost, and granted to another meanwhile", []heldSpan{lost, {span{4 * s, 5 * s}, a, false, 0}}, 0.2, 0, 5000},
		{"lost, and frozen as it was granted", []heldSpan{{span{3 * s, 6 * s}, b, true, 0}, {span{4 * s, 5 * s}, a, false, 0}}, 0.1, 0, 5000},
		{"lost, and granted as it was to be frozen", []heldSpan{{span{3*s + 1, 6 * s}, b, true, 0}, {span{4 * s, 5 * s}, a, false, 0}}, 0.1, 0, 5000},
		{"believed in while another holds", []heldSpan{{span{2 * s, 7 * s}, b, false, 0}, {span{4 * s, 5 * s}, a, false, 0}}, 0.3, 1, 3000},
		{"sure of after it was frozen, then lost", []heldSpan{{span{2 * s, 9 * s}, b, true, 7 * s}, {span{9 * s, 10 * s}, a, false, 0}}, 0.5, 0, 3000},
		{"sure of after another's grant, then lost", []heldSpan{{span{2 * s, 9 * s}, b, true, 7 * s}, {span{4 * s, 5 * s}, a, false, 0}}, 0.5, 1, 2000},
		{"sure of until it was frozen, then lost", []heldSpan{{span{0, 6 * s}, b, true, 3*s - 1}, {span{4 * s, 5 * s}, a, false, 0}}, 0.4, 0, 5000},
	} {
		r := &availRun{took: 10 * s, holds: test.holds}
		f := r.figures()
		if f["held_share"] != test.share || f["overlaps"] != test.overlaps || f["idle_max_ms"] != test.max {
			t.Errorf("%s: %v", test.name, f)
		}
	}
}

// lines calls each with every line that is written.
type lines func(line string)

func (each lines) Write(b []byte) (int, error) {
	each(string(b))
	return len(b), nil
}

// A term that was lost ends with the last step that began in it, one that was resigned with the resignation.
func TestLeads(t *testing.T) {
	for _, resigns := range []bool{false, true} {
		term, lose := context.WithCancel(t.Context())
		resign := make(chan struct{}, 1)
		var told []string
		_, broken := leads(term, resign, lines(func(line string) {
			if told = append(told, line); len(told) == 3 && resigns {
				resign <- struct{}{}
			} else if len(told) == 3 {
				lose()
			}
		}))
		lose()
		before, last := told[len(told)-2], told[len(told)-1]
		if broken != nil || told[0][0] != lineHeld || before[0] != lineStill || last[0] != map[bool]byte{false: lineLost, true: lineReleased}[resigns] {
			t.Errorf("resigns %v: it told %q, %v", resigns, told, broken)
		}
		if atSure := last[1:] == before[1:]; atSure == resigns {
			t.Errorf("resigns %v: it told %q", resigns, told)
		}
	}
	if lost, broken := leads(ended(t), nil, lines(func(string) { t.Error("a term that was lost before it began is told") })); lost == nil || broken != nil {
		t.Errorf("%v, %v", lost, broken)
	}
}

func ended(t *testing.T) context.Context {
	ctx, end := context.WithCancel(t.Context())
	end()
	return ctx
}

// Changes of leader are told from terms of one process, and a resignation from a loss.
func TestLeadFigures(t *testing.T) {
	const s = time.Second
	a, b := &availProcess{place: 0}, &availProcess{place: 1}
	r := &availRun{took: 10 * s, holds: []heldSpan{
		{span{0, 1 * s}, a, false, 0}, {span{2 * s, 4 * s}, b, true, 3 * s}, {span{7 * s, 8 * s}, b, true, 0}, {span{8 * s, 10 * s}, a, true, 0},
	}}
	if f := r.figures(); f["changes"] != 2 || f["handed_p50_ms"] != 1000 {
		t.Errorf("%v", f)
	}
}

// A run under faults counts the grants of coord, and finds that a lock or an election which is none overlaps.
func TestAvailability(t *testing.T) {
	st, err := openStore(t, "redis")
	if err != nil {
		t.Fatal(err)
	}
	for name, overlaps := range map[string]bool{"coord": false, "open door": true} {
		for _, kind := range []string{"availability", "lead", "write"} {
			sub, _ := availSubjectNamed(kind, "redis", name)
			f, err := availability(t.Context(), sub, st, kind+"-"+name[:1], 5*time.Second, 1)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(kind, name, f)
			if f["grants"] == 0 || f["overlaps"] > 0 != overlaps {
				t.Errorf("%s, %s: %v", kind, name, f)
			}
		}
	}
}

// The page has a row for each subject, and coord's stands out.
func TestAvailSection(t *testing.T) {
	ours := Row{Store: "redis", Subject: "coord", Kind: bench.Ours, About: "1s"}
	peer := Row{Store: "redis", Subject: "redislock, 20 ms", Kind: bench.Peer, About: "1s"}
	text := string(availSection(availResults{"availability": {Rows: []Row{ours, peer}}, "lead": {Rows: []Row{ours}}}))
	for _, want := range []string{
		"### Locks\n", "| redis | **coord** | 1s |", "| redis | redislock, 20 ms | 1s |",
		"### Leaders\n", "changes",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
