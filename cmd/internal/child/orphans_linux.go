package child

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// orphans are processes that the command has started and left: its detached children, and theirs.
// The kernel makes them children of this process. So it has to reap them, as process 1 of a
// container does anyway, and it knows whether some go on when the command has ended.
type orphans struct {
	died chan os.Signal // at least one child has ended
}

// adopt begins to take orphans. A kernel that refuses leaves them to process 1.
func adopt() *orphans {
	o := &orphans{died: make(chan os.Signal, 1)}
	signal.Notify(o.died, unix.SIGCHLD)
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	return o
}

func (o *orphans) stop() { signal.Stop(o.died) }

// reap reaps orphans while the command runs. The status of the command itself is os/exec's.
func (o *orphans) reap(command int) {
	for _, pid := range children() {
		if pid != command {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // it may go on
		}
	}
}

// settle is how long orphans may take to end after the command, as the tee of a shell's output does.
const settle = time.Second

// left reaps orphans when the command has been reaped. It is an error that names those that go on.
func (o *orphans) left() error {
	enough := time.NewTimer(settle)
	defer enough.Stop()
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR) || err == nil && pid > 0:
			continue
		case err != nil:
			return nil // there is none
		}
		select {
		case <-o.died:
		case <-enough.C:
			return fmt.Errorf("the command has ended, but what it has started goes on without the lock: %s", names(children()))
		}
	}
}

// children are those of this process, of all its threads.
func children() (pids []int) {
	files, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is sound
	for _, f := range files {
		text, _ := os.ReadFile(f) // the thread has ended
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// names are the processes with what they run.
func names(pids []int) string {
	var list []string
	for _, pid := range pids {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil {
			continue
		}
		list = append(list, fmt.Sprintf("%d (%q)", pid, strings.TrimSpace(string(name))))
	}
	if len(list) == 0 {
		return "unknown processes"
	}
	return "process " + strings.Join(list, ", ")
}
