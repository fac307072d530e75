package testserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// childrenOf gives the processes whose parent is pid.
func childrenOf(pid int) (children []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state ppid …", and the name may contain anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// awaitDead waits until a process that was killed uses nothing any more: memory that it shared may still be in use before.
func awaitDead(pid int) error {
	deadline := time.Now().Add(readyWithin)
	for {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			return nil // it is gone
		}
		if rest := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:]); len(rest) > 0 && rest[0] == 'Z' {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d outlives its SIGKILL", pid)
		}
		time.Sleep(100 * time.Microsecond)
	}
}
