package main

import (
	"bufio"
	"strings"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestTheJobHasTheLockToItsEnd(t *testing.T) {
	exampletest.On(t, append(exampletest.Stores, "memory"), func(t *testing.T, url string) {
		if said := exampletest.Kept(t, "--url", url); strings.Count(said, " ok\n") != 6 {
			t.Error("it does not say six times that all is well")
		}
	})
}

func TestWithoutRenewalTheRivalComesIn(t *testing.T) {
	exampletest.Broken(t, "--without-renewal")
}

// The lock is taken away by somebody else: here, by the test.
func TestTheJobStopsWhenItsLockIsBroken(t *testing.T) {
	exampletest.On(t, exampletest.Few, func(t *testing.T, url string) {
		const prefix = "longjob/"
		cmd := exampletest.Command(t, "--url", url, "--prefix", prefix, "--by-hand")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		asked := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			t.Log(lines.Text())
			if strings.Contains(lines.Text(), "by hand: coord break") {
				asked = true
				breakLock(t, url, prefix)
			}
		}
		if err := cmd.Wait(); err != nil || !asked {
			t.Errorf("it asked for the lock to be broken: %v; %v", asked, err)
		}
	})
}

func breakLock(t *testing.T, url, prefix string) {
	t.Helper()
	operator, err := coord.Open(t.Context(), url, coord.WithPrefix(prefix))
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	holder, err := operator.Inspect(t.Context(), "report")
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Break(t.Context(), "report", holder.ID); err != nil {
		t.Error(err)
	}
}
