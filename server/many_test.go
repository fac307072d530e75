package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
)

// What a held stream and an idle connection cost the server has a bound, and all is given back when they end.
func TestMany(t *testing.T) {
	k := start(t, "serve: {listen: '127.0.0.1:0', max_connections: 20000, max_holds: 20000, max_requests: 20000}")
	addr, end := k.serve()
	const streams, idles = 100, 300
	const head = " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	var conns []net.Conn
	open := func(request, want string) { // without a goroutine on this side
		t.Helper()
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(conn); !strings.HasPrefix(lines.Text(), want); {
			if !lines.Scan() {
				t.Fatalf("%s: no %s", request, want)
			}
		}
	}
	before := measure()
	for range idles {
		open("GET /livez"+head+"\r\n", "{}")
	}
	idle := measure()
	for i := range streams {
		open("POST /v1/locks/hold"+head+body(fmt.Sprintf(`{"key":"k%d"}`, i)), "event: held")
	}
	held := measure()
	for _, tc := range []struct {
		what       string
		n          int
		from, to   footprint
		goroutines float64
		bytes      int
	}{
		{"an idle connection", idles, before, idle, 1.1, 32 << 10},
		{"a held stream", streams, idle, held, 3.1, 64 << 10},
	} {
		goroutines, bytes := float64(tc.to.goroutines-tc.from.goroutines)/float64(tc.n), (tc.to.bytes-tc.from.bytes)/tc.n
		t.Logf("%s: %.2f goroutines, %d bytes; %d of them", tc.what, goroutines, bytes, tc.n)
		if goroutines > tc.goroutines || bytes > tc.bytes {
			t.Errorf("%s: %.2f goroutines, %d bytes: want at most %.2f, %d", tc.what, goroutines, bytes, tc.goroutines, tc.bytes)
		}
	}
	for _, conn := range conns {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := end(); err != nil { // and goleak sees what is left
		t.Error(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.live != 0 {
		t.Errorf("%d holds are left", k.live)
	}
}

// footprint is what this process has.
type footprint struct{ goroutines, bytes int }

func measure() footprint {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{runtime.NumGoroutine(), int(m.HeapAlloc + m.StackInuse)}
}
