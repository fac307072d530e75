package coord

import (
	"fmt"
	"runtime/debug"
)

// A driver's panic in a goroutine of the caller goes on to the caller. undo, deferred
// through ifPanics, sees to it that nothing stays locked behind it.
//
//	returned := false
//	defer ifPanics(&returned, undo)
//	...
//	returned = true
func ifPanics(returned *bool, undo func()) {
	if !*returned {
		undo()
	}
}

// survive, deferred, makes a driver's panic the error of a call that the client makes in a
// goroutine of its own: nobody could recover it there, and it would end the program.
func (c *Client) survive(doing string, err *error) {
	p := recover()
	if p == nil {
		return
	}
	*err = fmt.Errorf("%s panicked: %v", c.info.Name, p)
	c.log.Error("coord: the store panicked while "+doing, "backend", c.info.Name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}
