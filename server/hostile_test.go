package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Who has no token gets nothing but health, however it spells a path.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, called)
		for _, path := range []string{
			"/v1/locks/list", "//v1/locks/list", "/v1//locks/list", "/./v1/locks/list", "/livez/../v1/locks/list", "/v1/locks/list/",
			"/v1%2Flocks%2Flist", "/%76%31/locks/list", "/livez%2f..%2fv1/locks/list", "/livez;/v1/locks/list", "/LIVEZ", "/livez/", "/livez%00",
			"/openapi.json", "/metrics", "/v1/locks/watch?key=web", "/v1/locks/hold", "/", "*", "http://livez/v1/locks/list",
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead, http.MethodOptions, http.MethodConnect, http.MethodTrace, "GET\tX", "livez"} {
				for _, token := range []string{"", "Bearer", "Bearer ", "bearer web-web-web-web-web", "Bearer  web-web-web-web-web", "Bearer web-web-web-web-web,", "Basic d2ViOg=="} {
					w, ok := k.raw(method, path, token)
					if ok && w.Code != http.StatusUnauthorized {
						t.Errorf("%s %s %q: %d %s", method, path, token, w.Code, w.Body)
					}
				}
			}
		}
	})
}

// raw serves what a connection may bring. It is false for what package http refuses before.
func (k *kit) raw(method, path, token string) (w *httptest.ResponseRecorder, ok bool) {
	text := method + " " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: " + token + "\r\nContent-Length: 2\r\n\r\n{}"
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		return nil, false
	}
	w = httptest.NewRecorder()
	k.ServeHTTP(w, r.WithContext(k.t.Context()))
	return w, true
}

// Nothing that a stranger sends is served, and nothing is an error inside the server.
func FuzzStranger(f *testing.F) {
	f.Add("POST", "/v1/locks/acquire", "Bearer x")
	f.Add("GET", "/livez", "")
	f.Add("GET", "//readyz", "")
	f.Add("GET", "/v1/locks/watch?key=a;b", "Bearer \xff")
	f.Add("PRI", "*", "Bearer web-web-web-web-we")
	f.Fuzz(func(t *testing.T, method, path, token string) {
		if strings.Contains(token, "Bearer web-web-web-web-web") || strings.Contains(token, "Bearer all-all-all-all-all") {
			t.Skip("unsupported: it is no stranger")
		}
		k := start(t, called)
		w, ok := k.raw(method, path, token)
		if !ok || w.Code == http.StatusUnauthorized {
			return
		}
		// What is left is health, and ways to spell it.
		if body := w.Body.String(); w.Code >= 500 || strings.Contains(body, "openapi") || strings.Contains(body, "holders") || strings.Contains(body, `"id"`) {
			t.Errorf("%q %q %q: %d %s", method, path, token, w.Code, body)
		}
	})
}

// on serves connections inside the process, in fake time, until end.
func (k *kit) on() (l *pipes, end func()) {
	ctx, cancel := context.WithCancel(k.t.Context())
	l = &pipes{make(chan net.Conn), make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- k.Serve(ctx, l) }()
	return l, func() {
		k.t.Helper()
		cancel()
		if err := <-served; err != nil {
			k.t.Error(err)
		}
	}
}

const webHead = " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer web-web-web-web-web\r\nContent-Type: application/json\r\n"

// body is the end of a request.
func body(text string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text) }

// Who does not read a stream does not hold its key for ever.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, called)
		l, end := k.on()
		c := l.dial(t, "POST /v1/locks/hold"+webHead+body(`{"key":"web"}`))
		defer c.Close()
		time.Sleep(time.Second)
		k.post(acquirePath, `{"key":"web"}`, bearer("all-all-all-all-all")).want(t, http.StatusLocked, "locked")
		a := k.post(acquirePath, `{"key":"web","wait_ms":60000,"ttl_ms":1}`, bearer("all-all-all-all-all")).ok(t)
		if a.left() > time.Millisecond {
			t.Errorf("granted %v", a.body)
		}
		time.Sleep(time.Minute)
		watch := l.dial(t, "GET /v1/locks/watch?key=web"+webHead+"\r\n")
		defer watch.Close()
		time.Sleep(time.Minute) // and a watch that nobody reads ends
		if n := k.callers.byName(t, "web").requests.Load(); n != 0 {
			t.Errorf("%d requests are under way", n)
		}
		end()
	})
}

// Headers have a bound, and so has the time that they take.
func TestHeaderFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, called)
		l, end := k.on()
		for name, flood := range map[string]func(c net.Conn){
			"large": func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte("A: "+strings.Repeat("x", 1000)+"\r\n"), 100)) },
			"many":  func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte("A: x\r\n"), 20_000)) },
			"slow": func(c net.Conn) {
				for range 1000 {
					if _, err := c.Write([]byte("A: x\r\n")); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			},
		} {
			began := time.Now()
			c := l.dial(t, "GET /livez HTTP/1.1\r\nHost: x\r\n")
			flooded := make(chan struct{})
			go func() {
				defer close(flooded)
				flood(c)
			}()
			answer, _ := io.ReadAll(c) // until the server ends the connection
			if bytes.Contains(answer, []byte("200 OK")) || time.Since(began) > ioTime+time.Second {
				t.Errorf("%s: %s after %v", name, answer, time.Since(began))
			}
			c.Close()
			<-flooded
		}
		end()
	})
}

// A body without an end is read up to its bound.
func TestEndlessBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, called)
		l, end := k.on()
		c := l.dial(t, "POST "+acquirePath+webHead+"Transfer-Encoding: chunked\r\n\r\n")
		defer c.Close()
		sent := make(chan int)
		go func() {
			n := 0
			for range 1000 {
				m, err := io.WriteString(c, "400\r\n"+strings.Repeat("x", 1024)+"\r\n")
				if n += m; err != nil {
					break
				}
			}
			sent <- n
		}()
		got, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || got.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%v %v", got, err)
		}
		c.Close()
		if n := <-sent; n > 8*maxBody {
			t.Errorf("%d bytes were read", n)
		}
		end()
	})
}

// A caller that closes its half of a connection has left: it waits for nothing and holds nothing any more.
func TestHalfClosed(t *testing.T) {
	k := start(t, "serve: {listen: '127.0.0.1:0'}")
	addr, end := k.serve()
	c := &http.Client{Transport: new(http.Transport)}
	t.Cleanup(c.CloseIdleConnections)
	send := func(request string) *net.TCPConn {
		t.Helper()
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		return conn.(*net.TCPConn)
	}
	const head = " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	holder := send("POST /v1/locks/hold" + head + body(`{"key":"job"}`))
	lines := bufio.NewScanner(holder)
	for lines.Scan() && lines.Text() != "event: held" {
	}
	waiter := send("POST " + acquirePath + head + body(`{"key":"job","wait_ms":60000,"request_id":"r-0123456789abcd"}`))
	for _, conn := range []*net.TCPConn{waiter, holder} {
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil { // until the server has ended it
			t.Error(err)
		}
	}
	a := ask(t, c, "http://"+addr.String()+acquirePath, `{"key":"job","wait_ms":60000}`).ok(t)
	ask(t, c, "http://"+addr.String()+releasePath, id(a)).ok(t)
	if err := end(); err != nil {
		t.Error(err)
	}
}
