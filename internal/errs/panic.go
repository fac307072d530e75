package errs

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Panics turns the panics of a store's driver into errors.
type Panics struct {
	Store string // its name
	Log   *slog.Logger
}

// Catch is deferred in a goroutine of the library's own. It makes a panic of the driver the error
// of the call: nobody else could recover it, and it would end the program.
func (p *Panics) Catch(doing string, err *error) {
	r := recover()
	if r == nil {
		return
	}
	*err = fmt.Errorf("%s panicked: %v", p.Store, r)
	p.Log.Error("coord: the store panicked while "+doing, "backend", p.Store, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
}

// IfPanics is deferred in a goroutine of the caller, to which a driver's panic goes on. undo sees to
// it that nothing stays locked behind it.
//
//	returned := false
//	defer errs.IfPanics(&returned, undo)
//	...
//	returned = true
func IfPanics(returned *bool, undo func()) {
	if !*returned {
		undo()
	}
}
