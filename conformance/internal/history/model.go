package history

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/coordgo/coord/driver"
)

// Year is a period in which no limit moves during a run.
const Year = 366 * 24 * time.Hour

// Margin is what a holder takes off its lease for clocks that drift.
func Margin(ttl time.Duration) time.Duration { return max(ttl/100, 5*time.Millisecond) }

// stepper is a sequential model: whether the operation may answer so in state s, and the state after it.
type stepper[S any] interface {
	start() S
	step(s S, o *Operation) (S, bool)
	same(a, b S) bool
	show(s S) string
}

// sequential makes of a stepper what the checker takes.
func sequential[S any](m stepper[S]) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return m.start() },
		Step: func(state, input, _ any) (bool, any) {
			s, ok := m.step(state.(S), input.(*Operation))
			return ok, s
		},
		Equal:             func(a, b any) bool { return m.same(a.(S), b.(S)) },
		DescribeOperation: func(input, _ any) string { return input.(*Operation).String() },
		DescribeState:     func(s any) string { return m.show(s.(S)) },
	}
}

// branching is a sequential model in which several states may follow.
type branching[S any] interface {
	start() S
	steps(s S, o *Operation) []S
	same(a, b S) bool
	show(s S) string
}

// several makes of a branching model what the checker takes: its state is the set of those that are possible.
func several[S any](m branching[S]) porcupine.Model {
	nm := porcupine.NondeterministicModel{
		Init: func() []any { return []any{m.start()} },
		Step: func(state, input, _ any) []any {
			var out []any
			for _, s := range m.steps(state.(S), input.(*Operation)) {
				out = append(out, s)
			}
			return out
		},
		Equal:             func(a, b any) bool { return m.same(a.(S), b.(S)) },
		DescribeOperation: func(input, _ any) string { return input.(*Operation).String() },
		DescribeState:     func(s any) string { return m.show(s.(S)) },
	}
	return nm.ToModel()
}

// model is the one that the heading names.
func (h Heading) model() (porcupine.Model, error) {
	switch h.Model {
	case ModelOwners:
		return sequential[ownersState](ownersModel{}), nil
	}
	l, err := h.Limit.Normal()
	if err != nil {
		return porcupine.Model{}, fmt.Errorf("history of a limit: %w", err)
	}
	switch {
	case h.Model == ModelCounter && l.Per >= Year/2:
		return several[counterState](counterModel{l}), nil
	case h.Model != ModelMoving:
	case l.Algorithm == driver.TokenBucket:
		return sequential[bucketState](bucketModel{l}), nil
	case l.Algorithm == driver.SlidingWindow:
		return sequential[slidingState](slidingModel{l, h.Skewed}), nil
	case l.Algorithm == driver.FixedWindow:
		return several[fixedState](fixedModel{l}), nil
	}
	return porcupine.Model{}, fmt.Errorf("history of the model %q under %v, which there is not", h.Model, l)
}
