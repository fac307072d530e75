package fault

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// HTTP2Proxy is a Proxy for a server that speaks HTTP/2 without TLS, as gRPC does. What such a server sends next need
// not belong to a reply: it sends pings, acknowledgements and window updates, also before it has looked at a request.
// DropReply therefore breaks the connection at the first frame that is part of a reply.
type HTTP2Proxy struct {
	*Proxy
	relay *frameRelay
}

// NewHTTP2Proxy listens on a free port of the loopback interface and relays to target.
func NewHTTP2Proxy(target string) (*HTTP2Proxy, error) {
	r, err := newFrameRelay(target)
	if err != nil {
		return nil, err
	}
	p, err := NewProxy(r.listener.Addr().String())
	if err != nil {
		r.close()
		return nil, err
	}
	return &HTTP2Proxy{p, r}, nil
}

// Close breaks every connection and ends the proxy.
func (p *HTTP2Proxy) Close() error {
	err := p.Proxy.Close()
	p.relay.close()
	return err
}

// DropReply drops the next frame that is part of a reply, and breaks its connection.
func (p *HTTP2Proxy) DropReply() { p.relay.drop.Store(true) }

// Heal ends every fault. Bytes that waited go on.
func (p *HTTP2Proxy) Heal() {
	p.relay.drop.Store(false)
	p.Proxy.Heal()
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
