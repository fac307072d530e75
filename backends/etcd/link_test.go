package etcd

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/coordgo/coord/conformance"
)

// link is the way of one client to etcd. The bytes that come next from a server that
// speaks HTTP/2 need not belong to a reply: it sends pings, acknowledgements and window
// updates of its own, before it has looked at the request. DropReply therefore
// arms a relay behind the proxy that knows frames.
type link struct {
	*conformance.Proxy
	replies *frameRelay
}

func (l link) DropReply() { l.replies.drop.Store(true) }

func (l link) Heal() {
	l.replies.drop.Store(false)
	l.Proxy.Heal()
}

// newLink makes the way, and gives the address that the client connects to.
func newLink(tb conformance.TB, target string) link {
	r := newFrameRelay(tb, target)
	p, err := conformance.NewProxy(r.addr())
	if err != nil {
		tb.Fatalf("proxy: %v", err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Errorf("proxy: %v", err)
		}
	})
	return link{p, r}
}

// frameRelay relays to a server that speaks HTTP/2. Once drop is set it breaks the
// connection at the first frame that is part of a reply, and does not hand it on.
type frameRelay struct {
	listener net.Listener
	target   string
	drop     atomic.Bool
	wg       sync.WaitGroup
}

func newFrameRelay(tb conformance.TB, target string) *frameRelay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("relay: %v", err)
	}
	r := &frameRelay{listener: l, target: target}
	r.wg.Go(r.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		r.wg.Wait()
	})
	return r
}

func (r *frameRelay) addr() string { return r.listener.Addr().String() }

func (r *frameRelay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		var once sync.Once
		kill := func() {
			once.Do(func() {
				_ = client.Close()
				_ = server.Close()
			})
		}
		r.wg.Go(func() {
			defer kill()
			_, _ = io.Copy(server, client)
		})
		r.wg.Go(func() {
			defer kill()
			r.frames(client, server)
		})
	}
}

// frames hands on what the server sends, frame by frame (RFC 9113, section 4.1).
func (r *frameRelay) frames(client io.Writer, server io.Reader) {
	const data, headers = 0x0, 0x1
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(server, head); err != nil {
			return
		}
		reply := head[3] == data || head[3] == headers
		if reply && r.drop.CompareAndSwap(true, false) {
			return
		}
		length := binary.BigEndian.Uint32(head[:4]) >> 8
		if _, err := client.Write(head); err != nil {
			return
		}
		if _, err := io.CopyN(client, server, int64(length)); err != nil {
			return
		}
	}
}
