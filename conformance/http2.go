package conformance

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/coordgo/coord/driver"
)

// HTTP2Faults is [TCPFaults] for a store that speaks HTTP/2, as gRPC does. What such a
// server sends next need not belong to a reply: it sends pings, acknowledgements and
// window updates, also before it has looked at a request. DropReply therefore breaks the
// connection at the first frame that is part of a reply. The connection is plain,
// not TLS.
func HTTP2Faults(addr string, open func(tb TB, addr string) driver.Backend) *Faults {
	return &Faults{Link: func(tb TB) (driver.Backend, Link) {
		r, err := newFrameRelay(addr)
		if err != nil {
			tb.Fatalf("relay to %s: %v", addr, err)
		}
		p, err := NewProxy(r.listener.Addr().String())
		if err != nil {
			r.close()
			tb.Fatalf("proxy to %s: %v", addr, err)
		}
		tb.Cleanup(func() {
			if err := p.Close(); err != nil {
				tb.Errorf("proxy to %s: %v", addr, err)
			}
			r.close()
		})
		l := http2Link{p, r}
		return open(tb, p.Addr()), l
	}}
}

// http2Link is a proxy with a relay behind it that knows frames.
type http2Link struct {
	*Proxy
	relay *frameRelay
}

func (l http2Link) DropReply() { l.relay.drop.Store(true) }

func (l http2Link) Heal() {
	l.relay.drop.Store(false)
	l.Proxy.Heal()
}

// frameRelay relays to a server that speaks HTTP/2. Once drop is set it breaks the
// connection at the next frame that is part of a reply, and does not hand it on.
type frameRelay struct {
	listener net.Listener
	target   string
	drop     atomic.Bool
	wg       sync.WaitGroup
}

func newFrameRelay(target string) (*frameRelay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &frameRelay{listener: l, target: target}
	r.wg.Go(r.accept)
	return r, nil
}

// close ends the relay. Its connections end with those of the proxy before it.
func (r *frameRelay) close() {
	_ = r.listener.Close()
	r.wg.Wait()
}

func (r *frameRelay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // close closed it
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = client.Close() // as a server that is down would
			continue
		}
		end := sync.OnceFunc(func() {
			_ = client.Close()
			_ = server.Close()
		})
		r.wg.Go(func() {
			defer end()
			_, _ = io.Copy(server, client) // how it ends is of no interest
		})
		r.wg.Go(func() {
			defer end()
			r.frames(client, server)
		})
	}
}

// frames hands on what the server sends, frame by frame (RFC 9113, section 4.1), up to a
// reply that is to be dropped.
func (r *frameRelay) frames(client io.Writer, server io.Reader) {
	const data, headers = 0x0, 0x1
	var head [9]byte // length in three bytes, type, flags, stream in four
	for {
		if _, err := io.ReadFull(server, head[:]); err != nil {
			return
		}
		reply := head[3] == data || head[3] == headers
		if reply && r.drop.CompareAndSwap(true, false) {
			return
		}
		length := binary.BigEndian.Uint32(head[:4]) >> 8
		if _, err := client.Write(head[:]); err != nil {
			return
		}
		if _, err := io.CopyN(client, server, int64(length)); err != nil {
			return
		}
	}
}
