package testserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// awaitStopped waits until every thread of a process has stopped. The signal is
// pending when kill returns: one thread has to run to take it, and until then the
// others go on serving.
func awaitStopped(pid int) error {
	deadline := time.Now().Add(readyWithin)
	for {
		left, err := running(pid)
		if err != nil || left == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d threads of process %d still run", left, pid)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// running counts the threads that are not stopped.
func running(pid int) (int, error) {
	stats, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	if err != nil {
		return 0, err
	}
	n := 0
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		// "pid (name) state …", and the name may contain anything.
		_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" "))
		if ok && len(rest) > 0 && rest[0] != 'T' && rest[0] != 'Z' {
			n++
		}
	}
	return n, nil
}
