// Package demo shows with real processes on a real store what coord promises,
// measures it, and fails if a promise is broken.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// ErrBroken says that a promise was broken.
var ErrBroken = errors.New("a promise was broken: see above")

// Options say on what the demonstration runs.
type Options struct {
	// URL of the store; "" for a file store in a fresh directory.
	URL string
	// Out gets the report.
	Out io.Writer
	// Colour the verdicts.
	Colour bool
}

// stage is a demonstration under way.
type stage struct {
	printer
	ctx  context.Context
	url  string
	keys string // the prefix of this run's keys
	dir  string // for the files that the processes share
	next int    // number of the next act
}

// Run shows all acts and returns ErrBroken if a promise was broken, or the error that
// kept it from showing them.
func Run(ctx context.Context, o Options) (err error) {
	if strings.HasPrefix(o.URL, "memory:") {
		return fmt.Errorf("%w: the demonstration starts processes, and a memory store is one process's own: leave --url out, or name file:// or redis://", coord.ErrInvalid)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "coord-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.URL == "" {
		o.URL = (&url.URL{Scheme: "file", Path: rooted(filepath.ToSlash(filepath.Join(dir, "store")))}).String()
	}
	s := &stage{
		printer: printer{out: o.Out, colour: o.Colour},
		ctx:     ctx, url: o.URL, keys: "coord-demo/" + rand.Text()[:8] + "/", dir: dir,
	}
	began := time.Now()
	if err := s.introduce(); err != nil {
		return err
	}
	for _, act := range []func(*stage) error{(*stage).tickets, (*stage).crash, (*stage).freeze, (*stage).share} {
		if err := act(s); err != nil {
			return err
		}
	}
	return s.conclude(time.Since(began))
}

// rooted is a path as URLs have it: /C:/dir for C:/dir.
func rooted(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "/" + path
}

// introduce opens the store once, so that what is wrong with it is told before anything starts.
func (s *stage) introduce() error {
	client, err := coord.Open(s.ctx, s.url, coord.WithPrefix(s.keys))
	if err != nil {
		return err
	}
	info := client.Info()
	if err := client.Close(); err != nil {
		return err
	}
	server := info.Name
	if info.Server != "" && info.Server != info.Name {
		server += ", " + info.Server
	}
	s.line("coord demo on %s (%s), %d CPUs. Every letter is an operating system process.", driver.RedactURL(s.url), server, runtime.NumCPU())
	return s.err
}

func (s *stage) conclude(took time.Duration) error {
	s.line("")
	if s.broken > 0 {
		s.line("%s in %.1fs", s.bad(fmt.Sprintf("%d broken", s.broken)), took.Seconds())
		return errors.Join(s.err, ErrBroken)
	}
	s.line("%s in %.1fs. In this run, no ticket was sold twice, a waiter got the lock of a killed", s.good(fmt.Sprintf("All %d checks passed", s.checks)), took.Seconds())
	s.line("process, a paused process learned of its loss and its late write was refused, and twelve")
	s.line("processes together kept to one limit.")
	if !strings.HasPrefix(s.url, "redis") {
		s.line("The same on Redis:  go run ./cmd/coord demo --url redis://127.0.0.1:6379")
	}
	return s.err
}

// act begins the next part.
func (s *stage) act(format string, args ...any) {
	s.next++
	s.line("")
	s.line("%d  %s", s.next, fmt.Sprintf(format, args...))
}
