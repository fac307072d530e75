package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener inside the process, so that time is fake.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects, and sends text.
func (p *pipes) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	p.conns <- theirs
	if _, err := io.WriteString(ours, text); err != nil {
		t.Error(err)
	}
	return ours
}

// Who does not send what it has announced is not waited for, whoever it is, and keeps no server from its end.
func TestSlowBodies(t *testing.T) {
	const length = "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
	for name, text := range map[string]string{
		"a stranger": "POST /v1/locks/renew HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n" + length,
		"health":     "GET /livez HTTP/1.1\r\nHost: x\r\n" + length,
		"half":       "POST /v1/locks/renew HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer web-web-web-web-web\r\n" + length + "{",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := start(t, called)
				ctx, cancel := context.WithCancel(t.Context())
				l, served := &pipes{make(chan net.Conn), make(chan struct{})}, make(chan error, 1)
				go func() { served <- k.Serve(ctx, l) }()
				c, began := l.dial(t, text), time.Now()
				defer c.Close()
				_, _ = io.Copy(io.Discard, c) // until the server ends the connection
				if took := time.Since(began); took > ioTime+time.Second {
					t.Errorf("the connection ended after %v", took)
				}
				cancel()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A request may wait for longer than its body may take, and so may a stream.
func TestSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, called)
		ctx, cancel := context.WithCancel(t.Context())
		l, served := &pipes{make(chan net.Conn), make(chan struct{})}, make(chan error, 1)
		go func() { served <- k.Serve(ctx, l) }()
		const head = " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer web-web-web-web-web\r\nContent-Type: application/json\r\n"
		k.post(acquirePath, `{"key":"web","ttl_ms":40000}`, bearer("web-web-web-web-web")).ok(t)
		waiter := l.dial(t, "POST "+acquirePath+head+"Content-Length: 31\r\n\r\n"+`{"key":"web"  ,"wait_ms":60000}`)
		defer waiter.Close()
		watch := l.dial(t, "GET /v1/locks/watch?key=web"+head+"\r\n")
		seen := make(chan int)
		go func() {
			n := 0
			for lines := bufio.NewScanner(watch); lines.Scan(); {
				if strings.HasPrefix(lines.Text(), "event: holders") {
					n++
				}
			}
			seen <- n
		}()
		got, err := http.ReadResponse(bufio.NewReader(waiter), nil)
		if err != nil || got.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", got, err)
		}
		time.Sleep(10 * time.Second)
		watch.Close()
		if n := <-seen; n < 2 {
			t.Errorf("the watch has told %d times", n)
		}
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// A server whose time is over ends connections that are in the middle of something, and that is no failure.
func TestServeCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, called)
		k.mux.HandleFunc("POST /v1/endless", func(w http.ResponseWriter, r *http.Request) {
			unhurried(w)
			<-r.Context().Done()
		})
		ctx, cancel := context.WithCancel(t.Context())
		l, served := &pipes{make(chan net.Conn), make(chan struct{})}, make(chan error, 1)
		go func() { served <- k.Serve(ctx, l) }()
		c := l.dial(t, "POST /v1/endless HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer web-web-web-web-web\r\n\r\n")
		defer c.Close()
		synctest.Wait()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("the connection goes on: %d", n)
		}
	})
}
