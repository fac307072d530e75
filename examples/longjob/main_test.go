package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/examples/internal/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play runs the example in fake time, and gives what it says.
func play(t *testing.T) (said string, err error) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &program.Program{URL: "memory://" + t.Name(), Out: &out}
		err = p.Run(t.Context(), show)
		said = out.String()
	})
	t.Log(said)
	return said, err
}

func TestTheJobHasTheLockToItsEnd(t *testing.T) {
	if said, err := play(t); err != nil || strings.Count(said, " ok\n") != 6 {
		t.Errorf("%v: it has to say six times that all is well", err)
	}
}

func TestWithoutRenewalTheRivalComesIn(t *testing.T) {
	defer func() { *withoutRenewal = false }()
	*withoutRenewal = true
	if _, err := play(t); !errors.Is(err, program.ErrBroken) {
		t.Errorf("%v: a promise had to be broken", err)
	}
}
