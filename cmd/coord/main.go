// Command coord holds locks and limits rates for shell commands, shows and
// breaks locks, and looks at stores. docs/command.md describes it.
package main

import (
	"os"

	"github.com/redis/go-redis/v9/logging"

	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/cmd/coord/internal/cli"
	"github.com/coordgo/coord/conformance"
)

func main() {
	conformance.WorkerMain() // coord conform starts this program again
	logging.Disable()        // what it would say comes back as errors, in one line
	os.Exit(cli.Main(os.Args[1:]))
}
