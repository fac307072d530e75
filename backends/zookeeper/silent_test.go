package zookeeper

import (
	"io"
	"os"
	"testing"
	"time"
)

// Clients do not all go to the server that is named first.
func TestClientsSpreadOverServers(t *testing.T) {
	first := make(map[string]bool)
	hosts := []string{"a:1", "b:1", "c:1"}
	for range 100 { // one host is never first with a probability of 10^-17
		w := newWire(hosts, nil, time.Second, time.Second)
		host, _ := w.Next()
		first[host] = true
		w.quit()
	}
	if len(first) != len(hosts) {
		t.Errorf("first are %v only", first)
	}
}

// A server that does not answer is passed over for a while: the others, which refuse while they elect a leader, are
// asked again and again.
func TestSilentServerIsPassedOver(t *testing.T) {
	hosts := []string{"a:1", "b:1", "c:1"}
	w := newWire(hosts, nil, time.Hour, time.Second)
	defer w.quit()
	w.opened = func(int64, time.Time) {}
	hung, _ := w.Next()
	w.failed(os.ErrDeadlineExceeded)
	for range 2 * len(hosts) {
		if host, _ := w.Next(); host == hung {
			t.Fatalf("asked again, %s does not answer", host)
		}
		w.failed(io.EOF)
	}
	second, _ := w.Next()
	w.failed(os.ErrDeadlineExceeded)
	third, _ := w.Next()
	w.failed(os.ErrDeadlineExceeded)
	for _, want := range []string{hung, second, third} { // the one first that was silent first
		host, _ := w.Next()
		if host != want {
			t.Errorf("all are silent: %s, want %s", host, want)
		}
		w.failed(os.ErrDeadlineExceeded)
	}
	w.connected(time.Hour, 1, time.Now())
	if host, _ := w.Next(); host != third {
		t.Errorf("%s, want %s, which has answered", host, third)
	}
}
