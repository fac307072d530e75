// Command demo shows with real processes what coord promises, on files in a
// directory that it makes and removes. It takes about ten seconds, and exits
// with 1 if a promise is broken. The command coord does the same on any store:
// coord demo --url URL.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/coordgo/coord/backends/file"
	"github.com/coordgo/coord/internal/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run shows the demonstration, or does the work of one of its processes.
func run(ctx context.Context, args []string, in io.Reader, out *os.File) error {
	switch {
	case len(args) == 1 && args[0] == demo.WorkerCommand:
		return demo.Work(ctx, in, out)
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q: on another store, run go run ./cmd/coord demo --url URL", args[0])
	}
	return demo.Run(ctx, demo.Options{Out: out, Colour: coloured(out)})
}

// coloured reports whether out shows colours.
func coloured(out *os.File) bool {
	info, err := out.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == ""
}
