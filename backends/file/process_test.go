//go:build unix

package file

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

func init() {
	roles["count"] = countRole
	roles["pause"] = pauseRole
	roles["hammer"] = hammerRole
}

// child is another process at the store.
type child struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *bufio.Reader
	done bool
}

func start(t *testing.T, role, dir string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "COORD_FILE_ROLE="+role, "COORD_FILE_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		if !c.done {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return c
}

// line waits for a line of output.
func (c *child) line() string {
	c.t.Helper()
	s, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("%s: %v", c.cmd.Args, err)
	}
	return strings.TrimSpace(s)
}

func (c *child) signal(sig os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

// wait waits for the end and gives what is left of the output.
func (c *child) wait() (string, error) {
	rest, err := io.ReadAll(c.out)
	c.done = true
	return string(rest), errors.Join(err, c.cmd.Wait())
}

// countRole adds to a number in a file, 50 times, each under the lock. With the
// number it writes the token, which must rise.
func countRole(dir string) error {
	b, err := New(filepath.Join(dir, "store"))
	if err != nil {
		return err
	}
	l := b
	ctx := context.Background()
	for i := range 50 {
		r := driver.Request{ID: fmt.Sprintf("%d/%d", os.Getpid(), i), TTL: time.Minute}
		var g driver.Grant
		for {
			if g, err = l.TryLock(ctx, "counter", r); err == nil {
				break
			}
			if !errors.Is(err, driver.ErrLocked) {
				return err
			}
			time.Sleep(rand.N(time.Millisecond))
		}
		if err := count(filepath.Join(dir, "counter"), g.Token); err != nil {
			return err
		}
		if err := l.Unlock(ctx, "counter", r.ID); err != nil {
			return err
		}
	}
	return b.Close()
}

// count reads the number and the token before, and writes the next, with no
// protection but the lock's.
func count(path string, token int64) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var n, last int64
	if _, err := fmt.Sscan(string(text), &n, &last); err != nil {
		return err
	}
	if token <= last {
		return fmt.Errorf("token %d after %d", token, last)
	}
	return os.WriteFile(path, fmt.Appendf(nil, "%d %d", n+1, token), 0o600)
}

func TestProcessesLoseNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	counter := filepath.Join(dir, "counter")
	if err := os.WriteFile(counter, []byte("0 0"), 0o600); err != nil {
		t.Fatal(err)
	}
	const processes = 8
	var children []*child
	for range processes {
		children = append(children, start(t, "count", dir))
	}
	for _, c := range children {
		if _, err := c.wait(); err != nil {
			t.Errorf("process: %v", err)
		}
	}
	text, err := os.ReadFile(counter)
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := strings.Cut(string(text), " "); n != strconv.Itoa(processes*50) {
		t.Errorf("counted %s, want %d", n, processes*50)
	}
}

// pauseRole goes into the critical section of the key k, says so, and stays.
func pauseRole(dir string) error {
	ctx := context.Background()
	s, err := openStore(ctx, dir, sharedFS)
	if err != nil {
		return err
	}
	stay := make(chan struct{})
	s.inside = func(string) {
		fmt.Println("inside")
		<-stay
	}
	b := cas.New(driver.Info{Name: "file"}, s)
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(stay) }()
	// Standard input is at its end at once, unless the test keeps it open.
	if _, err := b.TryLock(ctx, "k", driver.Request{ID: "paused", TTL: time.Hour}); err != nil {
		return err
	}
	fmt.Println("locked")
	return b.Close()
}

// pause starts a process that stays in the critical section until release.
func pause(t *testing.T, dir string) (c *child, release func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "COORD_FILE_ROLE=pause", "COORD_FILE_DIR="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c = &child{t: t, cmd: cmd, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		if !c.done {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	if line := c.line(); line != "inside" {
		t.Fatalf("child says %q, want inside", line)
	}
	return c, func() { _ = in.Close() }
}

func TestKillInsideTheCriticalSection(t *testing.T) {
	dir := t.TempDir()
	b := newBackend(t, dir)
	c, _ := pause(t, dir)
	c.signal(syscall.SIGKILL)
	if _, err := c.wait(); err == nil {
		t.Error("the killed process ended well")
	}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	wantErr(t, "TryLock", second(b.TryLock(ctx, "k", request("a", time.Hour))), nil)
}

func TestStoppedInsideTheCriticalSection(t *testing.T) {
	dir := t.TempDir()
	b := newBackend(t, dir)
	c, release := pause(t, dir)
	c.signal(syscall.SIGSTOP)

	const wait = 50 * time.Millisecond
	answers := make(chan error)
	const callers = 5
	begin := time.Now()
	for i := range callers {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			answers <- second(b.TryLock(ctx, "k", request(strconv.Itoa(i), time.Hour)))
		}()
	}
	for range callers {
		err := <-answers
		wantErr(t, "TryLock", err, context.DeadlineExceeded)
		wantErr(t, "TryLock", err, driver.ErrNotSent)
	}
	if took := time.Since(begin); took > wait+hung { // it waits for ever else
		t.Errorf("calls with %v to live took %v", wait, took)
	}
	// Other shards go on.
	for i := range 20 {
		n := cas.Name{Kind: cas.Lock, Key: "other" + strconv.Itoa(i)}
		if shardDir(dir, n) != shardDir(dir, cas.Name{Kind: cas.Lock, Key: "k"}) {
			wantErr(t, n.Key, second(b.TryLock(t.Context(), n.Key, request("a", time.Hour))), nil)
		}
	}

	c.signal(syscall.SIGCONT)
	release()
	if line := c.line(); line != "locked" {
		t.Errorf("child says %q, want locked", line)
	}
	if _, err := c.wait(); err != nil {
		t.Errorf("process: %v", err)
	}
	wantErr(t, "TryLock", second(b.TryLock(t.Context(), "k", request("a", time.Hour))), driver.ErrLocked)
	h, err := b.Inspect(t.Context(), "k")
	if err != nil || h.ID != "paused" {
		t.Errorf("Inspect: %+v, %v, want the stopped process's hold", h, err)
	}
}

// hammerRole writes values of many sizes until it is killed. Each value says what
// it has to look like.
func hammerRole(dir string) error {
	ctx := context.Background()
	s, err := openStore(ctx, dir, sharedFS)
	if err != nil {
		return err
	}
	fmt.Println("started")
	name := cas.Name{Kind: cas.Limit, Key: "k", State: "n"}
	for {
		err := s.Update(ctx, name, func(old []byte, _ time.Time) (cas.Change, error) {
			if err := checkHammered(old); err != nil {
				return cas.Change{}, err
			}
			size := []int{1, 100, 3000, 4200, 30_000}[rand.IntN(5)]
			value := fmt.Sprintf("%d %s", size, strings.Repeat("x", size))
			return cas.Change{Write: true, Value: []byte(value), Keep: time.Hour}, nil
		})
		if err != nil {
			return err
		}
	}
}

func checkHammered(value []byte) error {
	if value == nil {
		return nil
	}
	size, rest, _ := strings.Cut(string(value), " ")
	if n, err := strconv.Atoi(size); err != nil || n != len(rest) || strings.Trim(rest, "x") != "" {
		return fmt.Errorf("damaged value %.20q of %d bytes", value, len(value))
	}
	return nil
}

// Processes that are killed at any moment leave a value that one of them wrote.
func TestKillAtAnyMoment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newStore(t, dir)
	name := cas.Name{Kind: cas.Limit, Key: "k", State: "n"}
	for range 10 {
		a, b := start(t, "hammer", dir), start(t, "hammer", dir)
		a.line()
		b.line()
		for range rand.IntN(20) {
			if v, ok := get(t, s, name); ok {
				if err := checkHammered([]byte(v)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, c := range []*child{a, b} {
			c.signal(syscall.SIGKILL)
			if _, err := c.wait(); err == nil || c.cmd.ProcessState.ExitCode() != -1 {
				t.Fatalf("process ended by itself: %v", c.cmd.ProcessState)
			}
		}
		if v, ok := get(t, s, name); ok {
			if err := checkHammered([]byte(v)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
