// Package program is what the examples share and nobody needs to copy: the flag for the store, a store that needs no server,
// verdicts, and processes.
package program

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/all" // an example runs on any store
)

// ErrBroken says that a promise was not kept.
var ErrBroken = errors.New("a promise was broken: see above")

// Program is a running example: the process that somebody started, or one that this process started.
type Program struct {
	// URL of the store.
	URL string
	// Prefix of every key, so that one run has nothing to do with another.
	Prefix string
	// Dir is for the files that the processes of a run share. It is gone after the run.
	Dir string
	// Name of the process; "" for the one that somebody started.
	Name string
	// Out takes what the program says.
	Out io.Writer
	// Patience is how long a crew may be silent before the run is given up.
	Patience time.Duration

	broken int
}

// Main runs an example to its end, and exits with 1 if it failed or broke a promise. The process that somebody started
// runs show; those that show starts run work.
func Main(show, work func(context.Context, *Program) error) {
	store := flag.String("url", "", "the store; by default one of files, in a temporary directory")
	prefix := flag.String("prefix", "", "put before every key; by default something new for each run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if name := os.Getenv(envName); name != "" {
		p := &Program{URL: os.Getenv(envURL), Prefix: os.Getenv(envPrefix), Dir: os.Getenv(envDir), Name: name, Out: os.Stderr}
		err = p.work(ctx, work)
	} else {
		p := &Program{URL: *store, Prefix: *prefix, Out: os.Stdout}
		err = p.Run(ctx, show)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, strings.TrimSpace(os.Getenv(envName)+" "+err.Error()))
		os.Exit(1)
	}
}

// Run runs show with what p does not say yet, and gives ErrBroken if a promise was broken.
func (p *Program) Run(ctx context.Context, show func(context.Context, *Program) error) (err error) {
	if p.Dir, err = os.MkdirTemp("", "coord-example-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.Dir)) }()
	if p.URL == "" {
		path := "/" + strings.TrimPrefix(filepath.ToSlash(filepath.Join(p.Dir, "store")), "/") // also of C:/dir
		p.URL = (&url.URL{Scheme: "file", Path: path}).String()
	}
	if p.Prefix == "" {
		p.Prefix = coord.Key("example", rand.Text()[:8]) + "/"
	}
	if p.Patience == 0 {
		p.Patience = time.Minute
	}
	if err := show(ctx, p); err != nil {
		return err
	}
	if p.broken > 0 {
		return ErrBroken
	}
	return nil
}

// Open opens the store. Its keys are those of this run, and its holds have the name of this process.
func (p *Program) Open(ctx context.Context, opts ...coord.Option) (*coord.Client, error) {
	opts = append([]coord.Option{coord.WithPrefix(p.Prefix)}, opts...)
	if p.Name != "" {
		opts = append(opts, coord.WithHolderName(p.Name))
	}
	return coord.Open(ctx, p.URL, opts...)
}

// Say says a line.
func (p *Program) Say(format string, args ...any) {
	fmt.Fprintf(p.Out, format+"\n", args...)
}

// Check says what was seen, and whether it is as promised. A promise that was not kept makes the run fail.
func (p *Program) Check(kept bool, format string, args ...any) {
	verdict := "ok"
	if !kept {
		verdict = "BROKEN"
		p.broken++
	}
	p.Say("%-74s %s", fmt.Sprintf(format, args...), verdict)
}
