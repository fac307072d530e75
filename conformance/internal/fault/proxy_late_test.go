package fault

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// StallAfter lets so many requests pass, and Heal the rest, though the client has gone by then.
func TestProxyStallsInTheMiddle(t *testing.T) {
	s := startEcho(t)
	p := startProxy(t, s.Addr().String())
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	send := func(line string) {
		if _, err := io.WriteString(c, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	replies := bufio.NewReader(c)
	p.StallAfter(2)
	for _, line := range []string{"one", "two"} {
		send(line)
		s.got(t, line)
		if _, err := replies.ReadString('\n'); err != nil { // or closing would reset the connection
			t.Fatal(err)
		}
	}
	send("three")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	stalled := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.stalled[request]
	}
	for deadline := time.Now().Add(10 * time.Second); !stalled(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the third request did not stall")
		}
	}
	select {
	case line := <-s.lines:
		t.Errorf("the server got %q while requests are stalled", line)
	default:
	}
	p.Heal()
	s.got(t, "three")
}
