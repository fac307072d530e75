package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// childAttr makes the kernel end a child when its parent dies.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// processorTime is what a process has used so far, in steps of 10 ms.
func processorTime(pid int) (time.Duration, error) {
	const tick, user, system = 10 * time.Millisecond, 11, 12 // the fields utime and stime after the name
	path := fmt.Sprintf("/proc/%d/stat", pid)
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// "pid (name) state …", and the name may contain anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= system {
		return 0, fmt.Errorf("%s has %d fields", path, len(fields))
	}
	var ticks time.Duration
	for _, i := range []int{user, system} {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		ticks += time.Duration(n)
	}
	return ticks * tick, nil
}
