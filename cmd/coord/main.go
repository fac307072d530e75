// Command coord holds locks and limits rates for shell commands, shows and
// breaks locks, and looks at stores. docs/command.md describes it.
package main

import (
	"os"

	_ "github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/cmd/coord/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
