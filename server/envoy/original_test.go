package envoy_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/coordgo/coord/internal/testserver"
)

var (
	requests = flag.Int("requests", 1000, "how many requests TestNightlyOriginal compares, at least")
	seed     = flag.Int("seed", 0, "of the requests of TestNightlyOriginal; 0 is the date")
)

// envoyproxy/ratelimit is asked random requests of random configurations, others each day, and here all is the same.
// testdata/record has it, of January 2026, and says what of later versions is left out. Its modules are fetched if need be.
func TestNightlyOriginal(t *testing.T) {
	t.Parallel()
	if *seed == 0 {
		*seed, _ = strconv.Atoi(time.Now().UTC().Format("20060102"))
	}
	t.Logf("repeat with -seed %d -requests %d", *seed, *requests)
	file := filepath.Join(t.TempDir(), "recorded.gz")
	configurations := *requests/24 + 30 // one has 26 on average
	program := filepath.Join(t.TempDir(), "record")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir, build.Env = "testdata/record", append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program, strconv.Itoa(*seed), strconv.Itoa(configurations), testserver.Redis(t).Addr, file).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	if n := replay(t, file); n.requests < *requests || n.refused == 0 {
		t.Errorf("%+v: want %d requests compared, and some files refused", n, *requests)
	}
}
