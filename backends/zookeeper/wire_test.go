package zookeeper

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// On a new connection the first answer waits until the library has asked for its watches, and no
// longer.
func TestAnswersWaitForWatches(t *testing.T) {
	t.Parallel()
	const asks = 10 * time.Millisecond
	for name, tt := range map[string]struct {
		watching, asks bool
		want           time.Duration
	}{
		"no watches":                   {false, false, 0},
		"watches":                      {true, true, asks},
		"watches that are not renewed": {true, false, maxHoldBack},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				defer server.Close()
				w := newWire([]string{"a:1"}, nil, time.Hour, time.Second)
				defer w.quit()
				w.watching, w.opened = func() bool { return tt.watching }, func(int64, time.Time) {}
				c := &wireConn{Conn: client, w: w, limit: time.Now().Add(time.Hour)}
				defer c.Close()
				go io.Copy(io.Discard, server)
				send := func(op int32) {
					request := make([]byte, 44)
					binary.BigEndian.PutUint32(request[8:], uint32(op))
					must[int](t)(c.Write(request))
				}
				answer := make([]byte, connectReply)
				binary.BigEndian.PutUint32(answer[8:], uint32(time.Hour.Milliseconds()))
				binary.BigEndian.PutUint64(answer[12:], 1)
				receive := func() {
					go server.Write(answer)
					must[int](t)(c.Read(make([]byte, len(answer))))
				}
				send(0) // to connect
				receive()
				send(opGet)
				began := time.Now()
				if tt.asks {
					time.AfterFunc(asks, func() { send(opSetWatches) })
				}
				receive()
				if took := time.Since(began); took != tt.want {
					t.Errorf("the answer came after %v, want %v", took, tt.want)
				}
				receive()
				if took := time.Since(began); took != tt.want {
					t.Errorf("the second answer came after %v, want %v", took, tt.want)
				}
			})
		})
	}
}
