package conformance

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/coordgo/coord/conformance/internal/history"
)

// HistoriesEnv names the environment variable with the directory in which failing histories are
// saved. Without it they are saved in the directory for temporary files.
const HistoriesEnv = "COORD_CONFORMANCE_HISTORIES"

// ErrNotLinearizable reports a history that no order of its operations explains.
var ErrNotLinearizable = history.ErrNotLinearizable

// CheckHistory reads a history that a failing case has saved and checks it again, for at most
// patience, and without a bound if that is 0. It gives nil if the history is
// linearizable, an error that matches [ErrNotLinearizable] if not, and another one if it is
// unreadable or was not decided in time. If drawing is not nil, it is given the drawing: a page of HTML. A history of
// the holds at a driver has none.
func CheckHistory(saved io.Reader, patience time.Duration, drawing io.Writer) error {
	return history.CheckSaved(saved, patience, drawing)
}

// patience is how long the checker may look for an order of the operations of one key. That is
// exponential at worst; the histories are cut so that it takes milliseconds.
const patience = 5 * time.Second

// record begins a history of the case.
func (e *env) record(h history.Heading) *history.Log {
	h.Case, h.Store, h.Seed = e.c.ID, e.info.Name, e.r.report.Seed
	return history.New(h)
}

// linearizable fails the case unless each key of each history is.
func (e *env) linearizable(all ...*history.Log) {
	answered := 0
	var wg sync.WaitGroup
	for _, h := range all {
		for key, ops := range h.ByKey() {
			answered += history.Answered(ops)
			wg.Go(func() { e.judge(h.Heading, key, ops) })
		}
	}
	wg.Wait()
	if answered == 0 {
		e.Errorf("histories: saw no operation that was answered, want some: they show nothing")
	}
}

// judge fails the case unless the operations of one key are linearizable.
func (e *env) judge(head history.Heading, key string, ops []history.Operation) {
	v, err := head.Check(ops, patience)
	if err != nil {
		e.Errorf("history of %s: %v", key, err)
		return
	}
	unknown := history.CountUnknown(ops)
	switch {
	case v.Err == nil:
	case errors.Is(v.Err, history.ErrUndecided):
		e.Logf("%v: of %s, %d of unknown outcome", v.Err, key, unknown)
	default:
		saved, drawn, err := v.Save(historiesDir(), head, ops)
		if err != nil {
			saved, drawn = "nowhere: "+err.Error(), ""
		}
		if drawn != "" {
			saved += " and drawn in " + drawn
		}
		e.Errorf("history of %s: saw %d operations that no order explains under the %s model, want a linearizable history; it is saved in %s\n%v",
			key, len(ops), head.Model, saved, v.Err)
	}
}

func historiesDir() string {
	if dir := os.Getenv(HistoriesEnv); dir != "" {
		return dir
	}
	return os.TempDir()
}
