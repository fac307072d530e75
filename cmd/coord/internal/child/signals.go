package child

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Signals are those that come to this process: they end its own waiting, and
// later they are the command's.
type Signals struct{ ch chan os.Signal }

// Listen begins to collect signals. One that was ignored when the process
// started, as nohup does, stays ignored.
func Listen() *Signals {
	s := &Signals{make(chan os.Signal, 64)}
	for _, sig := range passed {
		if !signal.Ignored(sig) {
			signal.Notify(s.ch, sig)
		}
	}
	return s
}

// Stop leaves signals to the system again: they end this process.
func (s *Signals) Stop() { signal.Stop(s.ch) }

// passStops adds the signals that stop and continue a command. A command that
// shares our process group gets them from the terminal, and so do we.
func (s *Signals) passStops(on bool) {
	if on && len(stops) > 0 {
		signal.Notify(s.ch, stops...)
	}
}

// Interrupted is the cause of a context that a signal ended.
type Interrupted struct{ Signal os.Signal }

func (e Interrupted) Error() string { return "interrupted: " + e.Signal.String() }

// Code is the exit status of a process that ends by the signal.
func (e Interrupted) Code() int {
	if n, ok := e.Signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 128
}

// Context ends with cause [Interrupted] at the first signal. After stop has
// returned, signals are the command's: those that came before have ended the
// context, and none is lost in between.
func (s *Signals) Context(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case sig := <-s.ch:
			cancel(Interrupted{sig})
		case <-quit:
		}
	}()
	return ctx, sync.OnceFunc(func() {
		close(quit)
		<-gone
	})
}
