package fault

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// echo is a server that answers each line with itself, and counts them.
type echo struct {
	net.Listener
	wg    sync.WaitGroup
	lines chan string
}

func startEcho(t *testing.T) *echo {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &echo{Listener: l, lines: make(chan string, 100)}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // a test may have closed it
		s.wg.Wait()
	})
	return s
}

func (s *echo) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewScanner(c)
	for in.Scan() {
		s.lines <- in.Text()
		if _, err := io.WriteString(c, in.Text()+"\n"); err != nil {
			return
		}
	}
}

func (s *echo) got(t *testing.T, want string) {
	t.Helper()
	select {
	case line := <-s.lines:
		if line != want {
			t.Errorf("the server got %q, want %q", line, want)
		}
	case <-time.After(time.Minute):
		t.Errorf("the server got nothing, want %q", want)
	}
}

func startProxy(t *testing.T, target string) *Proxy {
	p, err := NewProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// peer is a client of the echo server.
type peer struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, addr string) *peer {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &peer{t, c, bufio.NewReader(c)}
}

func (p *peer) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// receive reads a line within d.
func (p *peer) receive(d time.Duration) (string, error) {
	if err := p.SetReadDeadline(time.Now().Add(d)); err != nil {
		p.t.Fatal(err)
	}
	return p.in.ReadString('\n')
}

func (p *peer) gets(want string) {
	p.t.Helper()
	if line, err := p.receive(time.Minute); err != nil || line != want+"\n" {
		p.t.Errorf("got %q and error %v, want %q", line, err, want)
	}
}

func (p *peer) silent() {
	p.t.Helper()
	if line, err := p.receive(50 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Errorf("got %q and error %v, want silence", line, err)
	}
}

func (p *peer) broken() {
	p.t.Helper()
	if line, err := p.receive(time.Minute); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Errorf("got %q and error %v, want a broken connection", line, err)
	}
}

func TestProxyRelays(t *testing.T) {
	s := startEcho(t)
	p := startProxy(t, s.Addr().String())
	a, b := dial(t, p.Addr()), dial(t, p.Addr())
	a.send("one")
	b.send("two")
	a.gets("one")
	b.gets("two")
}

func TestProxyStallsRequests(t *testing.T) {
	s := startEcho(t)
	p := startProxy(t, s.Addr().String())
	c := dial(t, p.Addr())
	c.send("before")
	s.got(t, "before")
	c.gets("before")
	p.StallRequests()
	c.send("late")
	c.silent()
	if len(s.lines) != 0 {
		t.Error("the server got a request through a stalled link")
	}
	p.Heal()
	s.got(t, "late")
	c.gets("late")
}

// A request that was on its way reaches the store though its client has gone.
func TestProxyDeliversLate(t *testing.T) {
	s := startEcho(t)
	p := startProxy(t, s.Addr().String())
	c := dial(t, p.Addr())
	c.send("before")
	s.got(t, "before")
	c.gets("before")
	p.StallRequests()
	c.send("late")
	c.silent()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	p.Heal()
	s.got(t, "late")
}

func TestProxyStallsReplies(t *testing.T) {
	s := startEcho(t)
	p := startProxy(t, s.Addr().String())
	c := dial(t, p.Addr())
	p.StallReplies()
	c.send("line")
	s.got(t, "line")
	c.silent()
	p.Heal()
	c.gets("line")
}

func TestProxyDropsReply(t *testing.T) {
	s := startEcho(t)
	p := startProxy(t, s.Addr().String())
	c := dial(t, p.Addr())
	p.DropReply()
	c.send("line")
	s.got(t, "line")
	c.broken()
	c = dial(t, p.Addr())
	c.send("next")
	c.gets("next")
}

func TestProxyResets(t *testing.T) {
	s := startEcho(t)
	p := startProxy(t, s.Addr().String())
	c := dial(t, p.Addr())
	c.send("line")
	c.gets("line")
	p.Reset()
	c.broken()
	c = dial(t, p.Addr())
	c.send("next")
	c.gets("next")
}

func TestProxyDelays(t *testing.T) {
	s := startEcho(t)
	p := startProxy(t, s.Addr().String())
	c := dial(t, p.Addr())
	const delay = 40 * time.Millisecond
	p.Delay(delay)
	start := time.Now()
	c.send("line")
	c.gets("line")
	if took := time.Since(start); took < delay {
		t.Errorf("round trip took %v, want at least %v", took, delay)
	}
}

func TestProxyWithoutServer(t *testing.T) {
	s := startEcho(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	dial(t, startProxy(t, s.Addr().String()).Addr()).broken()
}

func TestProxyClosesWhileStalled(t *testing.T) {
	s := startEcho(t)
	p, err := NewProxy(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, p.Addr())
	c.send("line")
	c.gets("line")
	p.StallRequests()
	p.StallReplies()
	c.send("lost")
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	c.broken()
}
