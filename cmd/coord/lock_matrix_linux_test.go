package main_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coordgo/coord/internal/golden"
)

// matrixActs are what happens to coord lock: a signal to coord, or the end of what its command may do. Other signals are
// TestLockSignalEndsTheCommand's.
var matrixActs = []struct {
	name string
	sig  syscall.Signal
	// flags of coord lock, and of one whose command takes no signal, so that the grace is awaited. Any other command has time
	// to end by itself, on however slow a machine.
	flags, awaited []string
}{
	{"TERM", syscall.SIGTERM, nil, nil},
	{"KILL", syscall.SIGKILL, []string{"--ttl", "30s"}, []string{"--ttl", "30s"}},
	{"loss", 0, []string{"--ttl", "90s", "--grace", "30s"}, []string{"--ttl", "30s", "--grace", "4s"}},
	{"max-hold", 0, []string{"--ttl", "45s", "--max-hold", "48s", "--grace", "12s"}, []string{"--max-hold", "18s", "--grace", "3s"}},
}

// matrixKinds are the commands; see envEscape.
var matrixKinds = []struct{ kind, title string }{
	{"plain", "plain"},
	{"group", "other group"},
	{"user", "other user"},
	{"ignoring", "ignores"},
	{"stopped", "stopped"},
	{"detached", "detached child"},
}

// The table in the documentation says what happens to the command and its lock.
func TestLockMatrix(t *testing.T) {
	t.Parallel()
	coord, setuid := copyOf(t, "coord", 0o755), copyOf(t, "setuid", 0o755|os.ModeSetuid)
	cells := make([][]string, len(matrixActs))
	limit := make(chan struct{}, 12) // most of the time each of them waits
	var wg sync.WaitGroup
	for i, act := range matrixActs {
		cells[i] = make([]string, len(matrixKinds))
		for j, k := range matrixKinds {
			wg.Go(func() {
				limit <- struct{}{}
				defer func() { <-limit }()
				t.Run(act.name+"/"+k.kind, func(t *testing.T) {
					u, program := newUser(t, ""), os.Args[0]
					if k.kind == "user" {
						u, program = newNobody(t, coord), setuid
					}
					u.env = append(u.env, envEscape+"="+k.kind)
					flags := act.flags
					if k.kind == "user" || k.kind == "ignoring" {
						flags = act.awaited
					}
					c := cell{t: t, u: u, kind: k.kind, act: act.name, sig: act.sig}
					cells[i][j] = c.run(slices.Concat([]string{"lock", "a"}, flags, []string{"--", program}))
				})
			})
		}
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	golden.Section(t, "../../docs/command.md", "<!-- matrix: written by go test ./cmd/coord -run Matrix -update -->\n", "<!-- end of matrix -->\n", matrixTable(cells))
}

func matrixTable(cells [][]string) string {
	var b strings.Builder
	b.WriteString("| |")
	for _, k := range matrixKinds {
		b.WriteString(" " + k.title + " |")
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", 1+len(matrixKinds)) + "\n")
	for i, act := range matrixActs {
		fmt.Fprintf(&b, "| %s | %s |\n", act.name, strings.Join(cells[i], " | "))
	}
	return b.String()
}

// cell is one of them, while it runs.
type cell struct {
	t         *testing.T
	u         *user
	kind, act string
	sig       syscall.Signal

	r          *running
	pid, child int
	lines      []string // what the command has said
	ended      bool
}

// run gives the words of the table.
func (c *cell) run(args []string) string {
	c.r = c.u.start(args...)
	c.pid = c.number()
	if c.kind == "detached" {
		c.child = c.number()
		defer func() { _ = syscall.Kill(c.child, syscall.SIGKILL) }() // the test has ended it, or has failed
	}
	defer func() { _ = syscall.Kill(c.pid, syscall.SIGKILL) }()
	if c.kind == "stopped" {
		c.await("the command stops", func() bool { return c.is('T', c.pid) })
	}
	c.happen()
	var words []string
	switch {
	case c.waitsForCont():
		c.signal(c.pid, syscall.SIGCONT)
		c.await("the command ends", c.hasEnded)
		words = append(words, "ends on CONT")
	case !c.goesOn():
		words = append(words, c.end())
	case c.lockIsKept():
		words = append(words, "goes on")
	default:
		words = append(words, "**two**")
	}
	if said := c.r.stderr.String(); strings.Contains(said, "does not reach the command") {
		const warning = `coord: under the lock "a": signal %v does not reach the command (pid %d), which may go on: operation not permitted`
		sig := c.sig
		if sig == 0 {
			sig = syscall.SIGKILL // after TERM
		}
		if !strings.Contains(said, fmt.Sprintf(warning, sig, c.pid)) {
			c.t.Errorf("it warns so: %s", said)
		}
		words = append(words, "warned")
	}
	return strings.Join(append(words, c.finish()...), ", ")
}

// number is the next line, a pid.
func (c *cell) number() int {
	line := <-c.r.lines
	n, err := strconv.Atoi(line)
	if err != nil {
		c.t.Fatalf("%q, want a pid; stderr: %s", line, c.r.stderr)
	}
	return n
}

// happen does what the row says. The end of --max-hold comes by itself.
func (c *cell) happen() {
	switch {
	case c.sig != 0:
		c.signal(c.r.cmd.Process.Pid, c.sig)
	case c.act == "loss":
		c.u.process("break", "a").want(c.t, 0, "took the lock", "")
	}
}

func (c *cell) signal(pid int, sig syscall.Signal) {
	c.t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cell) await(what string, done func() bool) {
	c.t.Helper()
	if !eventually(done) {
		c.t.Fatalf("never: %s; the command said %q; stderr: %s", what, c.lines, c.r.stderr)
	}
}

// hasEnded reads what the command has said, until now. Its output ends with it.
func (c *cell) hasEnded() bool {
	for !c.ended {
		select {
		case line, ok := <-c.r.lines:
			if c.ended = !ok; ok {
				c.lines = append(c.lines, line)
			}
		default:
			return false
		}
	}
	return true
}

// waitsForCont reports whether the command has the signal, and does not see it because it is stopped.
func (c *cell) waitsForCont() bool {
	if c.kind != "stopped" || c.sig == 0 || c.sig == syscall.SIGKILL {
		return false
	}
	c.await("the signal is the command's", func() bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid)) // it may have ended
		_, pending, _ := strings.Cut(string(text), "\nShdPnd:\t")
		pending, _, _ = strings.Cut(pending, "\n")
		mask, _ := strconv.ParseUint(pending, 16, 64)
		return c.hasEnded() || mask&(1<<(c.sig-1)) != 0
	})
	return !c.ended && c.is('T', c.pid)
}

// goesOn waits until all has happened, and reports whether the command goes on.
func (c *cell) goesOn() bool {
	c.await("something happens", func() bool {
		warnings := c.r.stderr.String()
		switch {
		case c.hasEnded():
			return true
		case c.sig == syscall.SIGKILL:
			return hasExited(c.r.cmd.Process.Pid)
		case c.sig != 0:
			return len(c.lines) > 0 || strings.Contains(warnings, "does not reach the command")
		}
		return strings.Contains(warnings, "signal killed does not reach the command")
	})
	_, _ = io.WriteString(c.r.in, "go on\n") // nobody may be there
	c.await("the command ends or answers", func() bool { return c.hasEnded() || slices.Contains(c.lines, "go on") })
	return !c.ended
}

// hasExited reports whether all threads of a child have ended, and so the one whose end the kernel
// tells to the command.
func hasExited(child int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, child, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err != nil || info.Signo != 0
}

// end says how the command has ended: by a signal that it told, or by KILL.
func (c *cell) end() string {
	if len(c.lines) == 0 || c.kind == "ignoring" {
		return "killed"
	}
	return "ends"
}

// lockIsKept reports whether nobody else has the lock while the command goes on. A lease that nobody
// renews ends soon.
func (c *cell) lockIsKept() bool {
	try := []string{"lock", "a", "--no-wait", "--", "true"}
	if c.sig == syscall.SIGKILL || c.act == "loss" {
		try = []string{"lock", "a", "--wait", "5m", "--", "true"}
	}
	r := c.u.process(try...)
	if r.code != 0 && r.code != 75 {
		c.t.Fatalf("the next exits with %d: %s", r.code, r.stderr)
	}
	return r.code == 75
}

// finish ends what still runs, and gives the words about coord's end and the detached child.
func (c *cell) finish() (words []string) {
	alone := c.ended
	if !alone {
		c.signal(c.pid, syscall.SIGKILL)
	}
	c.await("coord ends", func() bool { return c.hasEnded() && c.isDead(c.r.cmd.Process.Pid) })
	childGoesOn := c.child != 0 && !c.isDead(c.child)
	r := c.r.end() // it closes the input, and so ends the child
	if c.sig != syscall.SIGKILL && (alone || c.sig == 0) {
		words = append(words, strconv.Itoa(r.code))
	}
	switch named := strings.Contains(r.stderr, "goes on without the lock: process "+strconv.Itoa(c.child)); {
	case childGoesOn && named:
		words = append(words, "child named")
	case childGoesOn:
		words = append(words, "child **goes on**")
	}
	return words
}

func (c *cell) isDead(pid int) bool { return syscall.Kill(pid, 0) != nil || c.is('Z', pid) }

// is reports whether a process is in this state.
func (c *cell) is(state byte, pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // it may be gone
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest != "" && rest[0] == state
}
