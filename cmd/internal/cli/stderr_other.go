//go:build !unix

package cli

import "os"

// ownStderr is standard error.
func ownStderr() *os.File { return os.Stderr }
