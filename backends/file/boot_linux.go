package file

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootID names this run of the kernel; it is hiddenBoot where it cannot be read, as
// in a sandbox.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id := strings.TrimSpace(string(text))
	if err != nil || id == "" || strings.Trim(id, "0123456789abcdef-") != "" {
		return hiddenBoot
	}
	return id
}

// sinceBoot is the time since the machine started, in suspension too, as this
// process sees it.
func sinceBoot() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, os.NewSyscallError("clock_gettime", err)
	}
	return time.Duration(ts.Nano()), nil
}

// bootShift is by how much the time namespace of this process shifts sinceBoot:
// processes in others, in a container or out of it, have to agree on the time.
func bootShift() (time.Duration, error) {
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		var sec, nsec int64
		if n, err := fmt.Sscanf(string(line), "boottime %d %d", &sec, &nsec); n == 2 && err == nil {
			return time.Duration(sec)*time.Second + time.Duration(nsec), nil
		}
	}
	return 0, fmt.Errorf("no boottime in /proc/self/timens_offsets")
}
