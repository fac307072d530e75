// Command coord-conform runs the conformance suite on a store, and measures
// locks and limits on it. docs/conformance.md describes it.
package main

import (
	"os"

	"github.com/redis/go-redis/v9/logging"

	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/cmd/internal/cli"
	"github.com/coordgo/coord/cmd/internal/conform"
	"github.com/coordgo/coord/conformance"
)

func main() {
	conformance.WorkerMain() // a case starts this program again
	logging.Disable()        // what it would say comes back as errors, in one line
	os.Exit(cli.Main(conform.Tool(), os.Args[1:]))
}
