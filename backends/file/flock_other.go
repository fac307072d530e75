//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package file

import (
	"fmt"
	"os"
	"runtime"

	"github.com/coordgo/coord/driver"
)

func tryLock(*os.File) (bool, error) {
	return false, fmt.Errorf("%w: no file locks on %s", driver.ErrUnsupported, runtime.GOOS)
}

func unlock(*os.File) error { return nil }
