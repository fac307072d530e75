package conformance

import (
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/coordgo/coord/driver"
)

// Environment is where the suite ran.
type Environment struct {
	Go     string `json:"go"`
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel,omitempty"` // on Linux
}

func environment() Environment {
	env := Environment{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0)}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		env.Kernel = strings.TrimSpace(string(release))
	}
	return env
}

// Adapter is the code that was tested.
type Adapter struct {
	// Package of the backend's type, and the module that it is in.
	Package string `json:"package"`
	Module  string `json:"module,omitempty"`
	// Version of the module; "(devel)" for the one that the program itself is of.
	Version string `json:"version,omitempty"`
}

// adapterOf tells whose code b is. A backend that is made of another's parts names them by
// a method Unwrap.
func adapterOf(b driver.Backend) Adapter {
	var inner any = b
	for {
		u, ok := inner.(interface{ Unwrap() any })
		if !ok {
			break
		}
		inner = u.Unwrap()
	}
	t := reflect.TypeOf(inner)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	build, _ := debug.ReadBuildInfo()
	return inModule(t.PkgPath(), build)
}

// inModule finds the module that has the package: the one with the longest name.
func inModule(path string, build *debug.BuildInfo) Adapter {
	a := Adapter{Package: path}
	if build == nil {
		return a
	}
	for _, m := range append([]*debug.Module{&build.Main}, build.Deps...) {
		within := path == m.Path || strings.HasPrefix(path, m.Path+"/")
		if !within || len(m.Path) <= len(a.Module) {
			continue
		}
		a.Module, a.Version = m.Path, m.Version
		if m.Replace != nil && m.Replace.Version == "" {
			a.Version = "(devel)"
		} else if m.Replace != nil {
			a.Version = m.Replace.Version
		}
	}
	return a
}
