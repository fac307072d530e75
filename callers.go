package coord

import (
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/coordgo/coord/driver"
)

// WithCallers makes the holder's name of a lock end with where in the program it was asked for, such as
// "app-7/billing.go:42": an operator, and whoever is refused, sees it in [Holder.Name]. A name of more than 64 bytes
// loses the end of its first part. It costs about a microsecond a lock. A lock is not handed over to a waiter of the
// same client that asked elsewhere in the program.
func WithCallers() Option {
	return func(o *settings) error {
		o.callers = true
		return nil
	}
}

// withCaller is the holder's name with the first frame that is not of this package, or of one that calls it for others.
func withCaller(holder string) string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	own, more := frames.Next()
	for more {
		var f runtime.Frame
		f, more = frames.Next()
		// Code that the compiler has put into a caller has the caller's function, and its own file.
		dir, isBelow := strings.CutPrefix(filepath.Dir(f.File), filepath.Dir(own.File))
		ours := isBelow && slices.Contains([]string{"", "/wrap"}, filepath.ToSlash(dir)) && !strings.HasSuffix(f.File, "_test.go")
		if !ours && f.File != "" {
			caller := holderName("/" + filepath.Base(f.File) + ":" + strconv.Itoa(f.Line))
			return holder[:min(len(holder), driver.MaxName-len(caller))] + caller
		}
	}
	return holder
}
