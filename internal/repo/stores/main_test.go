package stores

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/internal/testserver"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(quietEnv); url != "" {
		if err := load(url, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(everybody.Main(m))
}

// everybody is the server of all tests that disturb nobody.
var everybody testserver.Shared

func sharedRedis(t testing.TB) (url string) {
	t.Helper()
	return "redis://" + everybody.Use(t, func(t testing.TB) *testserver.Server { return testserver.Redis(t) }).Addr
}
