package report

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := StartProgress(&out, 3)
		p.Started("LOCK-00")
		p.Started("LOCK-0A")
		p.Finished("LOCK-0A", Ended{Passed: true, Text: "pass\n"})
		time.Sleep(every + time.Second)
		p.End()
		p.Printf("%d\n", 7)
		if want := "pass\n1 of 3, 1 passed, 0 failed: LOCK-00\n7\n"; out.String() != want || p.Err() != nil {
			t.Errorf("it tells %q, %v, want %q", out.String(), p.Err(), want)
		}
	})
}
