package history

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/anishathalye/porcupine"
)

// ErrNotLinearizable reports a history that no order of its operations explains.
var ErrNotLinearizable = errors.New("history is not linearizable")

// ErrUndecided reports a history that was not decided in time.
var ErrUndecided = errors.New("not decided in time")

// maxWindows is how many periods a history of a moving limit may last.
const maxWindows = 10_000

// Verdict is what the check of the operations of one key found.
type Verdict struct {
	// Err is nil if the history is linearizable. Else it matches ErrNotLinearizable or ErrUndecided.
	Err error

	drawable bool
	model    porcupine.Model
	info     porcupine.LinearizationInfo
}

// Check looks for an order of ops, all of one key, that the model allows. It takes at most patience, or as long as it
// needs if that is 0. The error tells of a heading that makes no sense.
func (h Heading) Check(ops []Operation, patience time.Duration) (Verdict, error) {
	if h.Schema != Schema {
		return Verdict{}, fmt.Errorf("history of schema %d: want %d", h.Schema, Schema)
	}
	if h.Model == ModelHolds {
		return Verdict{Err: checkHolds(h, ops)}, nil
	}
	model, err := h.model()
	if err != nil {
		return Verdict{}, err
	}
	if h.Model == ModelMoving { // the model of a fixed window walks over them
		from, to := span(ops)
		if windows := (to - from) / int64(h.Limit.Per); windows > maxWindows {
			return Verdict{}, fmt.Errorf("history of %d periods of a limit: want at most %d", windows, maxWindows)
		}
	}
	v := Verdict{model: model, drawable: true}
	var result porcupine.CheckResult
	switch result, v.info = porcupine.CheckOperationsVerbose(model, forChecker(ops), patience); result {
	case porcupine.Ok:
	case porcupine.Illegal:
		v.Err = ErrNotLinearizable
	default:
		v.Err = fmt.Errorf("history of %d operations: %w, %v", len(ops), ErrUndecided, patience)
	}
	return v, nil
}

// Draw writes the drawing of a history, a page of HTML. A history of holds has none.
func (v *Verdict) Draw(w io.Writer) error {
	if !v.drawable {
		return nil
	}
	if err := porcupine.Visualize(v.model, v.info, w); err != nil {
		return fmt.Errorf("drawing of the history: %w", err)
	}
	return nil
}

// CheckSaved reads a history and checks it. If drawing is not nil, it is given the drawing. The error is that of the
// verdict, or tells why there is none.
func CheckSaved(saved io.Reader, patience time.Duration, drawing io.Writer) error {
	head, ops, err := Read(saved)
	if err != nil {
		return err
	}
	v, err := head.Check(ops, patience)
	if err != nil {
		return err
	}
	if drawing != nil {
		if err := v.Draw(drawing); err != nil {
			return err
		}
	}
	return v.Err
}
