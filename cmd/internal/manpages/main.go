// Command manpages writes the manual pages of coord, one for each command, into a directory. scripts/release runs it.
//
//	manpages DIR VERSION
//
// The date of the pages is SOURCE_DATE_EPOCH, in seconds since 1970, or now.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"

	"github.com/coordgo/coord/cmd/internal/cli"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: manpages DIR VERSION")
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	root := cli.Tree(cli.Coord())
	root.DisableAutoGenTag = true // no line about the generator
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "coord " + args[1], Manual: "coord"}, args[0])
}
