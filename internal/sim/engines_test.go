package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// patch is a mistake in the engines: a text of a file that is replaced. The text is there once.
type patch struct {
	name     string
	theme    theme
	file     string // in the root of the module
	old, new string
}

const (
	holdDir   = "internal/hold/"
	permitDir = "internal/permit/"
)

var patches = []patch{
	// What a holder believes.
	{"a deadline is too late", locks, holdDir + "lease.go", "return max(ttl/100, 5*time.Millisecond)", "return -50 * time.Millisecond"},
	{"a lease counts from the answer", locks, holdDir + "ask.go", "\treturn granted{g, sent}, err\n", "\tsent = a.m.clock.Now()\n\treturn granted{g, sent}, err\n"},
	{
		"a renewed lease counts from the answer", nested, holdDir + "renew.go",
		"\treturn granted{g, sent}, err\n", "\t_ = sent\n\treturn granted{g, m.clock.Now()}, err\n",
	},
	{"a deadline passes unseen", locks, holdDir + "lease.go", "case h.deadline.Load().Reached(now):", "case false:"},
	{"MaxHold passes unseen", locks, holdDir + "lease.go", "case t.endBy != clock.Instant{} && t.endBy.Reached(now):", "case false:"},
	{"what is overdue goes on", locks, holdDir + "renew.go", "\t\t\tlost = append(lost, h.end(nil, cause, lossOf(cause)))\n", ""},
	{"a hold is looked after once", locks, holdDir + "renew.go", "\t\tfurther = append(further, h)\n", ""},
	{"the timer is set once", locks, holdDir + "schedule.go", "\ts.armed = 0\n", ""},
	{"Done does not close", locks, holdDir + "lease.go", "\t\tclose(t.done)\n", ""},
	{"a context outlives its lock", locks, holdDir + "lease.go", "\t\tw.Cancel(e.t.err)\n", "\t\t_ = w\n"},
	{"a hold is renewed at its half", locks, holdDir + "attempt.go", "renewAt: g.since(m.clock).Add(g.TTL / 3)", "renewAt: g.since(m.clock).Add(g.TTL / 2)"},
	{"a hold is renewed again at its half", locks, holdDir + "renew.go", "min(g.TTL, h.by.spec.Lease) / 3)", "min(g.TTL, h.by.spec.Lease) / 2)"},
	{"a hold is renewed as often as can be", locks, holdDir + "renew.go", "min(g.TTL, h.by.spec.Lease) / 3)", "min(g.TTL, h.by.spec.Lease) / 30)"},
	{"a token is handed over", locks, holdDir + "handover.go", "m.floor, h.handOvers)", "m.floor, 0)"},
	{"a hold is handed over for ever", locks, holdDir + "handover.go", "const handOverWindow = 50 * time.Millisecond", "const handOverWindow = time.Minute"},
	{"a hold that is handed over goes back, too", locks, holdDir + "handover.go", "\tm.give(h, a)\n", "\tm.give(h, a)\n\tdefer func() { _ = m.unlockStore(ctx, h) }()\n"},
	{"MinHold is not kept", locks, holdDir + "release.go", "max(h.grantedAt+h.by.spec.MinHold-h.m.clock.Mono(), 0)", "0"},
	// What is left behind.
	{"a lock that was given back stays", locks, "lock.go", "err = l.h.t.Release(ctx)", "err = nil"},
	{"an attempt that failed leaves nothing to clean up", locks, holdDir + "acquisition.go", "if q.unknown == 0 {", "if true {"},
	{"a try of unknown outcome is forgotten", locks, holdDir + "ask.go", "\tif err != nil && !driver.Definite(err) {\n\t\ta.mayHave(a.m.clock.Now())\n", "\tif err != nil && !driver.Definite(err) {\n"},
	{"a wait of unknown outcome is forgotten", locks, holdDir + "ask.go", "\t\tif !driver.Definite(err) {\n\t\t\ta.mayHave(now)\n", "\t\tif !driver.Definite(err) {\n"},
	{"the janitor comes once", locks, holdDir + "cleanup.go", "\tif !t.finished(err, asked) {", "\tif !t.finished(err, asked) && t.pause == 0 {"},
	{"an unknown outcome is certain", locks, "driver/errors.go", "\t\t\treturn true\n\t\t}\n\t}\n\treturn false\n", "\t\t\treturn true\n\t\t}\n\t}\n\treturn err != nil\n"},
	{"Close gives nothing back", locks, "close.go", "m.GiveBack(ctx) })\n\t}\n\tgiving", "_, _ = m, ctx })\n\t}\n\tgiving"},
	// Who waits.
	{"an attempt that leads is not told", locks, holdDir + "key.go", "\t\ta.yields, k.yields = k.yields, false\n\t\ta.signal()\n", "\t\ta.yields, k.yields = k.yields, false\n"},
	{"a key is left to nobody", locks, holdDir + "key.go", "\t\tk.hold = nil\n\t}\n\tm.next(k)\n", "\t\tk.hold = nil\n\t}\n"},
	{"a leader that gives up leaves nobody behind", locks, holdDir + "key.go", "\tm.attempts--\n\tm.next(k)\n", "\tm.attempts--\n"},
	{"who polls pauses for long", locks, holdDir + "ask.go", "minPause = 2 * time.Millisecond", "minPause = 20 * time.Second"},
	{"the end of a context ends no wait", locks, holdDir + "attempt.go", "\t\tcase <-ctx.Done():\n\t\t\tended = true\n", ""},
	{"a place at the head of a queue has the lease of the hold", shares, holdDir + "shared.go", "Lease: a.m.placeLease", "Lease: a.spec.Lease"},
	{"a place at the head of a queue stays", shares, holdDir + "shared.go", "_ = place.Release(context.Background())", "_ = place"},
	{"an inner entry gives the lock back", nested, "reentrant.go", "\tif h.handles == 0 {\n", "\tif h.handles <= 1 {\n"},
	{"a signal that finds nobody is the last", signals, "cond.go", "\t\tcase errors.Is(err, ErrNotHeld): // it has left\n\t\t\tcontinue\n", "\t\tcase errors.Is(err, ErrNotHeld): // it has left\n\t\t\treturn nil\n"},
	{"a wait that fails keeps its signal", signals, holdDir + "place.go", "p.m.janitor.put(p.passingOn())", "_ = p.passingOn"},
	{"a place that was perhaps given back keeps its signal", signals, holdDir + "release.go", "unknown && h.by.spec.PassOn == nil &&", "unknown &&"},
	// Permits.
	{"a reservation is due at once", limits, "reserve.go", "r.due = c.clock.Now().Add(t.Delay)", "r.due = c.clock.Now()"},
	{"who waits goes on before its permits are due", limits, permitDir + "wait.go", "err = p.sleep(ctx, time.Until(w.due))", "err = nil"},
	{"a charge is of a quarter", limits, "charge.go", "c.permits.Charge(ctx, &d, n)", "c.permits.Charge(ctx, &d, n/4)"},
	{"what was taken in advance does not end", limits, permitDir + "prefetched.go", "return b.left == 0 || b.ends.Reached(now)", "return b.left == 0"},
	{"a denial is remembered for a minute", limits, permitDir + "denials.go", "until := sent.Mono + min(t.RetryAfter, maxDenial)", "until := sent.Mono + time.Minute"},
}

// wanted is what the binary with a mistake is told: the theme.
const wanted = "COORD_SIM_WANTED"

// TestPatched runs in a binary with a mistake. It fails when that is seen.
func TestPatched(t *testing.T) {
	name := os.Getenv(wanted)
	if name == "" {
		t.Skip("unsupported: it runs in the binaries of TestEngines")
	}
	for seed := range uint64(40 * everyRun) { // as many as a nightly run has
		if p := planOf(seed); p.theme.String() == name {
			o := simulate(t, p, nil, true, false)
			if len(o.violations) > 0 {
				t.Fatalf("seed %d shows it: %v", seed, o.violations[0])
			}
		}
	}
}

// Each mistake in the engines is seen.
func TestEngines(t *testing.T) {
	if os.Getenv("COORD_SIM_MUTANTS") == "" {
		t.Skip("unsupported: each mistake is compiled, which takes minutes: make nightly has COORD_SIM_MUTANTS=1")
	}
	for _, p := range patches {
		t.Run(p.name, func(t *testing.T) {
			if out, seen := p.run(t); !seen {
				t.Errorf("no seed shows it: %s", out)
			} else {
				t.Log(out)
			}
		})
	}
}

// Each mistake can be made in the code as it is.
func TestEnginesHaveThePlaces(t *testing.T) {
	for _, p := range patches {
		p.read(t)
	}
}

// read gives the file of the patch, and the root of the module.
func (p *patch) read(t *testing.T) (text, root string) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(root, p.file))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), p.old); n != 1 {
		t.Errorf("%s: %s has the text %d times, want once: the mistake must be made in another place now:\n%s", p.name, p.file, n, p.old)
	}
	return string(b), root
}

// run compiles the patch and gives what its binary said.
func (p *patch) run(t *testing.T) (out string, seen bool) {
	text, root := p.read(t)
	file, dir := filepath.Join(root, p.file), t.TempDir()
	patched, overlay, binary := filepath.Join(dir, "patched.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sim.test")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: patched}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{patched: []byte(strings.Replace(text, p.old, p.new, 1)), overlay: replace} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// All seeds without a mistake take a quarter of a minute of processor time: a mistake may have the engines go round and round.
	child := exec.Command("sh", "-c", `ulimit -t 30 && exec "$0" -test.run '^TestPatched$' -test.timeout 0`, binary)
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%v", wanted, p.theme))
	var said bytes.Buffer
	child.Stdout, child.Stderr = &said, &said
	switch err := child.Run(); {
	case err == nil:
		return said.String(), false
	case said.Len() == 0:
		return fmt.Sprintf("it does not end: %v", err), true
	}
	return firstLine(said.String()), true
}

// firstLine is the line that says what is wrong.
func firstLine(said string) string {
	for line := range strings.Lines(said) {
		if strings.Contains(line, "shows it") || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.TrimSpace(line)
		}
	}
	return said
}
