package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	module  = "github.com/coordgo/coord"
	checker = "github.com/anishathalye/porcupine"
	otel    = "go.opentelemetry.io/otel"
)

// pkg is what go list tells of a package.
type pkg struct {
	ImportPath string
	Doc        string
	Imports    []string
	Standard   bool
	Deps       []string
}

func list(t *testing.T, patterns ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Doc,Imports,Standard,Deps"}, patterns...)...)
	cmd.Dir = "../../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// ours is every package of the workspace, save for those of programs that use coord as anybody does.
func ours(t *testing.T) []pkg {
	t.Helper()
	users := []string{"bench", "examples", "internal/containers"}
	pkgs := slices.DeleteFunc(list(t, "work"), func(p pkg) bool {
		return slices.ContainsFunc(users, func(dir string) bool { return under(p.ImportPath, dir) })
	})
	if len(pkgs) < 50 {
		t.Fatalf("%d packages: is that all?", len(pkgs))
	}
	return pkgs
}

// under reports whether path is the package dir of the module, or below it.
func under(path, dir string) bool {
	full := module + "/" + dir
	return path == full || strings.HasPrefix(path, full+"/")
}

func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// Who may import whom. What a program that imports coord downloads and links
// depends on it.
func TestImports(t *testing.T) {
	for _, p := range ours(t) {
		for _, dep := range p.Imports {
			if why := forbidden(p.ImportPath, dep); why != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, dep, why)
			}
		}
	}
}

// forTests are the packages that serve tests alone.
var forTests = []string{"conformance", "coordtest", "internal/crowd", "internal/golden", "internal/limitmodel", "internal/middleware/middlewaretest", "internal/routertest", "internal/testserver", "internal/testwait"}

// anotherModule reports whether a package is in a module that is released beside the root's.
func anotherModule(path string) bool {
	return slices.ContainsFunc([]string{"grpccoord", "otelcoord", "integrations", "server", "cmd", "backends/all"}, func(dir string) bool { return under(path, dir) })
}

// engines are what the root package is made of.
var engines = []string{"internal/hold", "internal/permit", "internal/partition", "internal/storecall", "internal/trace", "internal/clock", "internal/errs", "internal/quorum"}

func forbidden(from, dep string) string {
	switch {
	case dep == "testing" && under(from, "conformance/internal"):
		return "the parts of conformance do not know go test"
	case dep == "testing" && !slices.ContainsFunc(forTests, func(dir string) bool { return under(from, dir) }):
		return "of what is no test, only " + strings.Join(forTests, ", ") + " import testing"
	case standard(dep):
		return ""
	case under(from, "internal/limitmodel") && dep != module+"/driver":
		return "the model of limits shares no arithmetic: it imports package driver alone"
	case strings.HasPrefix(dep, checker) && !under(from, "conformance"):
		return "only conformance checks histories"
	case under(from, "conformance/internal") && !strings.HasPrefix(dep, checker) && !under(dep, "driver") && !under(dep, "conformance/internal"):
		return "the parts of conformance import each other, driver, the checker of histories and the standard library"
	case under(from, "conformance") && !strings.HasPrefix(dep, checker) && dep != module && !under(dep, "observe") && !under(dep, "driver") && !under(dep, "conformance"):
		return "conformance imports the root, observe, driver, its own parts, the checker of histories and the standard library"
	case under(from, "driver") && !under(dep, "driver"):
		return "driver imports the standard library only"
	case under(from, "observe") && dep != module+"/driver":
		return "observe imports driver and the standard library only"
	case under(from, "wrap") && dep != module:
		return "wrap imports the root and the standard library only: it stands on the public API"
	case from == module && (!under(dep, "driver") && !under(dep, "observe") && !under(dep, "internal") || under(dep, "internal/quorum")):
		return "the root imports driver, observe, internal but the engine of quorums, and the standard library only"
	case slices.ContainsFunc(engines, func(dir string) bool { return under(from, dir) }) && dep == module:
		return "an engine does not know the root"
	case under(from, "rules") && dep != module && !under(dep, "internal/shadow"):
		return "rules imports the root, internal/shadow and the standard library only"
	case under(from, "httpcoord") && dep != module && !under(dep, "rules") && !under(dep, "internal"):
		return "httpcoord imports the root, rules and the standard library only"
	case under(from, "grpccoord") && under(dep, "backends"):
		return "grpccoord imports no store"
	case under(from, "integrations") && !joins(from, dep):
		return "a package of integrations imports the root, internal/nethttp of its module, and the one library that it is for"
	case strings.HasPrefix(dep, otel) && !under(from, "cmd") && (!under(from, "otelcoord") && !under(from, "server") || strings.HasPrefix(dep, otel+"/sdk") || strings.HasPrefix(dep, otel+"/exporters")):
		return "OpenTelemetry is for otelcoord and server, and of it the API alone; the command exports"
	case under(from, "server") && under(dep, "backends"):
		return "server imports no store"
	case under(from, "backends") && !under(from, "backends/all") && under(dep, "backends") && !sameBackend(from, dep):
		return "no backend imports another"
	case under(from, "backends") && !under(from, "backends/all") && strings.HasPrefix(dep+"/", module+"/") &&
		!under(dep, "driver") && !under(dep, "backends") && !(under(from, "backends/quorum") && under(dep, "internal/quorum")) &&
		!(under(from, "backends/postgres") && dep == module):
		return "a backend imports driver, that of quorums its engine too, and that of PostgreSQL the root, for Fence"
	case under(dep, "internal") && anotherModule(from) && !under(dep, "internal/middleware") && !under(from, "cmd"):
		return "the root may have another version than a module that is not it"
	}
	return ""
}

// libraries are what each package of integrations is for.
var libraries = map[string]string{
	"gocroncoord": "github.com/go-co-op/gocron", "certmagiccoord": "github.com/caddyserver/certmagic", "asynqcoord": "github.com/hibiken/asynq",
	"gincoord": "github.com/gin-gonic/gin", "echocoord": "github.com/labstack/echo", "fibercoord": "github.com/gofiber/fiber",
}

// joins reports whether a package of integrations may import dep, so that a program that imports one links one library.
func joins(from, dep string) bool {
	library, ok := libraries[strings.TrimPrefix(from, module+"/integrations/")]
	return dep == module || under(dep, "integrations/internal/nethttp") || ok && strings.HasPrefix(dep, library)
}

func sameBackend(a, b string) bool {
	name := func(p string) string {
		rest := strings.TrimPrefix(p, module+"/backends/")
		first, _, _ := strings.Cut(rest, "/")
		return first
	}
	return name(a) == name(b)
}

// The rules above say what they are meant to say.
func TestForbidden(t *testing.T) {
	for _, tc := range []struct {
		from, dep string
		ok        bool
	}{
		{module, "context", true},
		{module, module + "/driver", true},
		{module, module + "/backends/redis", false},
		{module, "github.com/redis/go-redis/v9", false},
		{module, "testing", false},
		{module, module + "/observe", true},
		{module + "/observe", module + "/driver", true},
		{module + "/observe", module + "/internal/errs", false},
		{module + "/driver/cas", module + "/driver", true},
		{module + "/driver/cas", module, false},
		{module + "/internal/permit", module, false},
		{module + "/internal/permit", module + "/internal/clock", true},
		{module + "/backends/redis", "github.com/redis/go-redis/v9", true},
		{module + "/backends/redis", module + "/driver", true},
		{module + "/backends/redis", module, false},
		{module + "/backends/postgres", module, true},
		{module + "/backends/redis", module + "/backends/file", false},
		{module + "/backends/redis", module + "/conformance", false},
		{module + "/backends/all", module + "/backends/file", true},
		{module + "/backends/quorum", module + "/internal/quorum", true},
		{module + "/backends/redis", module + "/internal/quorum", false},
		{module, module + "/internal/quorum", false},
		{module + "/conformance", "testing", true},
		{module + "/httpcoord", module + "/rules", true},
		{module + "/rules", module + "/internal/shadow", true},
		{module + "/rules", module + "/internal/hold", false},
		{module + "/httpcoord", module + "/backends/redis", false},
		{module + "/httpcoord", "google.golang.org/grpc", false},
		{module + "/grpccoord", "google.golang.org/grpc", true},
		{module + "/grpccoord", module + "/backends/etcd", false},
		{module + "/grpccoord", module + "/internal/middleware", true},
		{module + "/grpccoord", module + "/internal/clock", false},
		{module + "/integrations/gincoord", "github.com/gin-gonic/gin", true},
		{module + "/integrations/gincoord", "github.com/labstack/echo/v4", false},
		{module + "/integrations/gincoord", module + "/integrations/internal/nethttp", true},
		{module + "/integrations/gincoord", module + "/httpcoord", false},
		{module + "/integrations/another", "github.com/labstack/echo/v4", false},
		{module + "/backends/etcd", module + "/internal/clock", false},
		{module + "/backends/etcd", module + "/backends/etcd/internal/x", true},
		{module + "/conformance", checker, true},
		{module + "/conformance", module + "/backends/memory", false},
		{module + "/conformance", module + "/conformance/internal/history", true},
		{module + "/conformance/internal/history", "testing", false},
		{module + "/conformance/internal/history", module, false},
		{module + "/conformance/internal/history", module + "/driver", true},
		{module + "/conformance", "go.uber.org/goleak", false},
		{module + "/driver/limits", checker, false},
		{module + "/cmd/coord", checker, false},
		{module + "/otelcoord", otel + "/metric", true},
		{module + "/otelcoord", otel + "/sdk/metric", false},
		{module + "/backends/redis", otel + "/metric", false},
		{module + "/server", otel + "/metric", true},
		{module + "/server", otel + "/sdk/metric", false},
		{module + "/server", module + "/config", true},
		{module + "/server", module + "/internal/clock", false},
		{module + "/server", module + "/backends/memory", false},
		{module + "/cmd/internal/cli", otel + "/sdk/metric", true},
	} {
		if why := forbidden(tc.from, tc.dep); (why == "") != tc.ok {
			t.Errorf("%s imports %s: %q", tc.from, tc.dep, why)
		}
	}
}

// A program that imports the core links nothing from outside the standard library.
func TestRootDependencies(t *testing.T) {
	for _, p := range list(t, ".", "./driver/...", "./observe") {
		for _, dep := range p.Deps {
			if !standard(dep) && dep != module && !strings.HasPrefix(dep, module+"/") && !strings.HasPrefix(dep, "vendor/") {
				t.Errorf("%s links %s", p.ImportPath, dep)
			}
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	for _, p := range ours(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}
