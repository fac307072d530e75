// Command coord holds locks and limits rates for shell commands, shows and
// breaks locks, and looks at stores. docs/command.md describes it.
package main

import (
	"os"

	"github.com/redis/go-redis/v9/logging"

	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/cmd/internal/cli"
)

func main() {
	logging.Disable() // what it would say comes back as errors, in one line
	os.Exit(cli.Main(cli.Coord(), os.Args[1:]))
}
