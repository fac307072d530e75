//go:build !linux

package main

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

func childAttr() *syscall.SysProcAttr { return nil }

func processorTime(int) (time.Duration, error) {
	return 0, fmt.Errorf("the processor time of a process is read on Linux only: %w", errors.ErrUnsupported)
}
