package containers

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
)

// http2Link is a link to a store that speaks HTTP/2. Such a server sends pings and window
// updates of its own, so the next bytes that come from it need not be of a reply. Behind the
// proxy there is a relay that knows frames, and it is the one to drop replies.
type http2Link struct {
	*conformance.Proxy
	drop *atomic.Bool
}

func (l http2Link) DropReply() { l.drop.Store(true) }

func (l http2Link) Heal() {
	l.drop.Store(false)
	l.Proxy.Heal()
}

// http2Faults is conformance.TCPFaults for such a store.
func http2Faults(addr string, open func(tb conformance.TB, addr string) driver.Backend) *conformance.Faults {
	return &conformance.Faults{Link: func(tb conformance.TB) (driver.Backend, conformance.Link) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatalf("relay: %v", err)
		}
		p, err := conformance.NewProxy(listener.Addr().String())
		if err != nil {
			tb.Fatalf("proxy: %v", err)
		}
		l := http2Link{p, new(atomic.Bool)}
		var relays sync.WaitGroup
		relays.Go(func() { l.accept(listener, addr, &relays) })
		tb.Cleanup(func() {
			if err := p.Close(); err != nil {
				tb.Errorf("proxy: %v", err)
			}
			_ = listener.Close()
			relays.Wait()
		})
		return open(tb, l.Addr()), l
	}}
}

// accept relays every connection until the listener is closed. A pair ends with either side.
func (l http2Link) accept(listener net.Listener, addr string, relays *sync.WaitGroup) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", addr)
		if err != nil {
			_ = client.Close()
			continue
		}
		end := sync.OnceFunc(func() {
			_ = client.Close()
			_ = server.Close()
		})
		relays.Go(func() {
			defer end()
			_, _ = io.Copy(server, client)
		})
		relays.Go(func() {
			defer end()
			l.frames(client, server)
		})
	}
}

// frames hands on what the server sends, frame by frame (RFC 9113, section 4.1), up to a reply that
// is to be dropped.
func (l http2Link) frames(client io.Writer, server io.Reader) {
	const data, headers = 0x0, 0x1
	var head [9]byte // length in three bytes, type, flags, stream in four
	for {
		if _, err := io.ReadFull(server, head[:]); err != nil {
			return
		}
		if kind := head[3]; (kind == data || kind == headers) && l.drop.CompareAndSwap(true, false) {
			return
		}
		if _, err := client.Write(head[:]); err != nil {
			return
		}
		if _, err := io.CopyN(client, server, int64(binary.BigEndian.Uint32(head[:4])>>8)); err != nil {
			return
		}
	}
}
