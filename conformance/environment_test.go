package conformance

import (
	"runtime/debug"
	"testing"

	"github.com/coordgo/coord/backends/file"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/driver"
)

func TestAdapterOf(t *testing.T) {
	f, err := file.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := memory.New()
	for _, b := range []driver.Backend{f, m} {
		defer b.Close()
	}
	const module = "github.com/coordgo/coord"
	if a := adapterOf(m); a.Package != module+"/backends/memory" || a.Module != module {
		t.Errorf("memory is of %+v", a)
	}
	// It is made of cells, by another package.
	if a := adapterOf(f); a.Package != module+"/backends/file" || a.Module != module {
		t.Errorf("file is of %+v", a)
	}
}

func TestInModule(t *testing.T) {
	build := &debug.BuildInfo{
		Main: debug.Module{Path: "example.org/app", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "example.org/store", Version: "v1.2.0"},
			{Path: "example.org/store/deep", Version: "v0.3.0"},
			{Path: "example.org/here", Version: "v0.0.0", Replace: &debug.Module{Path: "../here"}},
			{Path: "example.org/fork", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/own", Version: "v1.0.1"}},
		},
	}
	for path, want := range map[string]Adapter{
		"example.org/app/x":         {Module: "example.org/app", Version: "(devel)"},
		"example.org/store":         {Module: "example.org/store", Version: "v1.2.0"},
		"example.org/store/deep/er": {Module: "example.org/store/deep", Version: "v0.3.0"},
		"example.org/stores":        {},
		"example.org/here":          {Module: "example.org/here", Version: "(devel)"},
		"example.org/fork":          {Module: "example.org/fork", Version: "v1.0.1"},
	} {
		want.Package = path
		if got := inModule(path, build); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	if got := inModule("x", nil); got != (Adapter{Package: "x"}) {
		t.Errorf("without build information: %+v", got)
	}
}
