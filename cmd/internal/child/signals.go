package child

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
)

// Signals are those that come to this process: they end its own waiting, and
// later they are the command's.
type Signals struct {
	ch    chan os.Signal
	asked os.Signal
}

// Listen begins to collect signals. One that was ignored when the process
// started, as nohup does, stays ignored.
func Listen() *Signals {
	s := &Signals{ch: make(chan os.Signal, 64)}
	for _, sig := range passed {
		if !signal.Ignored(sig) {
			signal.Notify(s.ch, sig)
		}
	}
	return s
}

// Stop leaves signals to the system again: they end this process.
func (s *Signals) Stop() { signal.Stop(s.ch) }

// passStops adds the signals that stop and continue a command, until done is called. A command that
// shares our process group gets them from the terminal, and so do we.
func (s *Signals) passStops(on bool) (done func()) {
	if !on || len(stops) == 0 {
		return func() {}
	}
	signal.Notify(s.ch, stops...)
	return func() { signal.Reset(stops...) } // they stop and continue us again
}

// Asked is the last INT, QUIT or TERM that came while a command ran, or nil.
func (s *Signals) Asked() os.Signal { return s.asked }

// note remembers a signal that asks to end. HUP may be told to a command that reads its configuration again.
func (s *Signals) note(sig os.Signal) {
	if sig == os.Interrupt || sig == syscall.SIGQUIT || sig == syscall.SIGTERM {
		s.asked = sig
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
	return ctx, s.Ending(cancel)
}

// Ending is Context of one that the caller has: it ends by end.
func (s *Signals) Ending(end context.CancelCauseFunc) (stop func()) {
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case sig := <-s.ch:
				if slices.Contains(stops, sig) {
					continue // it was for a command that has ended
				}
				end(Interrupted{sig})
			case <-quit:
			}
			return
		}
	}()
	return sync.OnceFunc(func() {
		close(quit)
		<-gone
	})
}
