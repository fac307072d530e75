//go:build !linux

package file

import "time"

// Without a name for the run of the kernel the store follows the wall clock.

func bootID() (string, error) { return "", nil }

func sinceBoot() (time.Duration, error) { return 0, nil }

func bootShift() (time.Duration, error) { return 0, nil }
