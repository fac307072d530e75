package settle

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBad, errAway = errors.New("bad"), errors.New("away")

// Content is taken when two looks have seen it, and what cannot be taken is refused once. What is in force by other means is
// not taken again.
func TestLook(t *testing.T) {
	inForce := "a"
	w := From(inForce)
	for i, step := range []struct {
		now    string // "" cannot be read
		report bool
		err    error
		force  string // what is in force afterwards
	}{
		{"a", false, nil, "a"},
		{"b", false, nil, "a"},
		{"b", true, nil, "b"},
		{"b", false, nil, "b"},
		{"c", false, nil, "b"},
		{"d", false, nil, "b"},
		{"d", true, nil, "d"},
		{"", true, errAway, "d"},
		{"", false, errAway, "d"},
		{"d", true, nil, "d"},
		{"d", false, nil, "d"},
		{"bad", false, nil, "d"},
		{"bad", true, errBad, "d"},
		{"bad", false, nil, "d"},
		{"d", false, nil, "d"},
		{"d", true, nil, "d"},
		{"d", false, nil, "d"},
		{"bad", false, nil, "d"},
		{"bad", true, errBad, "d"},
		{"e", false, nil, "d"},
		{"e", true, nil, "e"},
		{"", true, errAway, "e"},
		{"f", false, nil, "e"},
		{"", true, errAway, "e"},
		{"f", true, nil, "f"},
	} {
		var gone error
		if step.now == "" {
			gone = errAway
		}
		report, err := w.Look(step.now, gone, inForce, func() error {
			if step.now == "bad" {
				return errBad
			}
			inForce = step.now
			return nil
		})
		if report != step.report || err != step.err || inForce != step.force {
			t.Errorf("step %d, %q: %t, %v, in force %s", i, step.now, report, err, inForce)
		}
	}
	inForce = "other" // for a while, between two looks
	if report, err := w.Look("f", nil, inForce, func() error { inForce = "f"; return nil }); !report || err != nil || inForce != "f" {
		t.Errorf("after a change by others: %t, %v, in force %s", report, err, inForce)
	}
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		n := 0
		Every(ctx, time.Second, func() { n++ })
		if n != 3 {
			t.Errorf("%d looks, want 3", n)
		}
	})
}
