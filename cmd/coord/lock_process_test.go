//go:build unix

package main_test

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coordgo/coord/internal/testserver"
)

// The status of the command is coord's, and so are its input and output.
func TestLockRunsTheCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.process("lock", "a", "--", "true").want(t, 0, "", "")
	u.process("lock", "a", "--", "sh", "-c", "exit 7").want(t, 7, "", "")
	u.process("lock", "a", "--", "sh", "-c", "kill -9 $$").want(t, 137, "", "")
	u.process("lock", "a", "--", "sh", "-c", "kill -TERM $$").want(t, 143, "", "")
	u.pipe("one\ntwo\n", "lock", "a", "--", "cat").want(t, 0, "one\ntwo\n", "")
	u.process("lock", "a", "--", "sh", "-c", "echo oops >&2").want(t, 0, "", "oops\n")
	u.process("lock", "a b/ü", "--", "sh", "-c", `echo "$COORD_LOCK"`).want(t, 0, "a b/ü\n", "")
	u.process("lock", "a", "--", "echo", "--ttl", "--", "-x").want(t, 0, "--ttl -- -x\n", "")
	script := u.write("script", "not a program")
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	u.process("lock", "a", "--", script).want(t, 126, "", "exec format error")
	if _, err := os.Stat(filepath.Join(u.dir, ".local", "state", "coord")); err != nil {
		t.Errorf("the default store: %v", err)
	}
}

// Descriptors are inherited, not copied: the command sees the very file.
func TestLockInheritsDescriptors(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	file, err := os.Create(filepath.Join(u.dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := u.command("lock", "a", "--", "sh", "-c", `out=$(readlink /proc/$$/fd/1); echo "$out" >&2; echo to three >&3`)
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = file, &stderr
	extra, err := os.Create(filepath.Join(u.dir, "three"))
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	cmd.ExtraFiles = []*os.File{extra}
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Logf("which file standard output is cannot be seen here: %v", err)
	} else if got := strings.TrimSpace(stderr.String()); got != file.Name() {
		t.Errorf("standard output is %q, want %q", got, file.Name())
	}
	if text, err := os.ReadFile(extra.Name()); err != nil || string(text) != "to three\n" {
		t.Errorf("descriptor 3 got %q, %v", text, err)
	}
}

// Twelve shells increment a number in a file, without anything else to protect it.
func TestLockTwelve(t *testing.T) {
	t.Parallel()
	const shells = 12
	u := newUser(t, "")
	number := u.write("number", "0\n")
	var wg sync.WaitGroup
	for range shells {
		wg.Go(func() {
			u.process("lock", "number", "--", "sh", "-c", `read n < number; echo $((n + 1)) > number`).want(t, 0, "", "")
		})
	}
	wg.Wait()
	if text, err := os.ReadFile(number); err != nil || string(text) != fmt.Sprintf("%d\n", shells) {
		t.Errorf("the number is %q, %v, want %d", text, err, shells)
	}
}

// A signal to coord reaches the command once, and the lock is freed when it has ended.
func TestLockPassesSignals(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	u.env = append(u.env, envRecorder+"=1")
	r := u.start("lock", "a", "--", os.Args[0])
	for sig, name := range map[syscall.Signal]string{
		syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGHUP: "HUP", syscall.SIGUSR1: "USR1",
	} {
		if signal.Ignored(sig) {
			t.Logf("%s is ignored in this test run, as under nohup", name)
			continue
		}
		r.signal(sig)
		r.await(name)
		// What comes next is the next line: the signal did not come twice.
		if _, err := fmt.Fprintln(r.in, "after "+name); err != nil {
			t.Fatal(err)
		}
		r.await("after " + name)
	}
	u.run("status", "a").want(t, 0, "held", "")
	r.close().want(t, 9, "", "")
	u.run("status", "a").want(t, 3, "free", "")
}

// A command that a signal ends gives the status that a shell gives.
func TestLockSignalEndsTheCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGQUIT: 131} {
		if signal.Ignored(sig) {
			t.Logf("%v is ignored in this test run, as under nohup", sig)
			continue
		}
		r := u.start("lock", "a", "--", "sh", "-c", "echo up; exec sleep 60")
		r.signal(sig)
		r.end().want(t, code, "", "")
		u.run("status", "a").want(t, 3, "free", "")
	}
}

// A signal that was ignored when coord started stays ignored, as nohup wants.
func TestLockKeepsIgnored(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	cmd := u.command()
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `trap '' HUP; exec "$0" lock a --local -- sh -c 'kill -HUP $PPID; kill -HUP $$; echo survived'`, u.coord()}
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "survived\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// A signal ends the wait of a process, too.
func TestLockWaiterGetsASignal(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	s, _ := u.hold("lock", "a")
	waiter := u.spawn(u.command("lock", "a", "--verbose", "--", "echo", "ran"))
	if !eventually(func() bool { return strings.Contains(waiter.stderr.String(), "coord: waiting: ") }) {
		t.Fatalf("it does not wait: %s", waiter.stderr)
	}
	waiter.signal(syscall.SIGTERM)
	waiter.end().want(t, 143, "", "")
	s.release()
}

// A command that does not heed TERM is killed when its time is over, with all of its group.
func TestLockKills(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	r := u.start("lock", "a", "--max-hold", "5s", "--", "bash", "-c",
		`trap '' TERM; sleep 300 >/dev/null & echo $! > sleeper; echo up; while :; do sleep 0.1; done`)
	r.end().want(t, 74, "", `coord: the lock "a" reached its --max-hold of 5s: the command has ended`)
	u.wantDead("sleeper")
	u.run("status", "a").want(t, 3, "free", "")
}

// wantDead waits for the end of a process whose number is in a file.
func (u *user) wantDead(file string) {
	u.t.Helper()
	text, err := os.ReadFile(u.path(file))
	if err != nil {
		u.t.Fatal(err)
	}
	awaitDeath(u.t, strings.TrimSpace(string(text)))
}

// awaitDeath waits until a process is gone, or dead and not yet buried.
func awaitDeath(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	dead := eventually(func() bool {
		if syscall.Kill(n, 0) != nil {
			return true
		}
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return err == nil && strings.Contains(string(stat), ") Z ")
	})
	if !dead {
		t.Errorf("process %s goes on without the lock", pid)
	}
}

// When the store is away the command ends, heeding TERM or not. When it is due is TestWatch's, of package child.
func TestLockStoreAway(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	u := newUser(t, "redis://"+server.Addr)
	r := u.start("lock", "a", "--ttl", "6s", "--", "bash", "-c", `trap '' TERM; echo $$ > pid; echo up; while :; do sleep 0.1; done`)
	server.Pause()
	u.wantDead("pid")
	r.end().want(t, 74, "", "was lost") // the store is still away
	server.Resume()
}

// A holder that is killed: its command dies with it, and the next has the lock when the lease ends.
func TestLockKilled(t *testing.T) {
	t.Parallel()
	u := newRedisUser(t)
	r := u.start("lock", "a", "--ttl", "1s", "--", "sh", "-c", `echo $$ > pid; echo up; exec sleep 300`)
	r.signal(syscall.SIGKILL)
	u.run("lock", "a", "--", "true").want(t, 0, "", "")
	u.wantDead("pid")
	_ = r.cmd.Wait() // it was killed
}

// A holder that was stopped beyond its lease ends its command when it goes on, with 74.
func TestLockStopped(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	r := u.start("lock", "a", "--ttl", "1s", "--", "sh", "-c", `echo $$ > pid; echo up; exec sleep 300`)
	r.signal(syscall.SIGSTOP)
	u.run("lock", "a", "--", "true").want(t, 0, "", "")
	r.signal(syscall.SIGCONT)
	r.end().want(t, 74, "", "was lost")
	u.wantDead("pid")
}
