package conformance

import (
	"time"

	"github.com/coordgo/coord/conformance/internal/fault"
	"github.com/coordgo/coord/driver"
)

// TCPFaults gives a store behind one TCP address its Link hook: open opens a
// client of the store at another address, that of a proxy made for that
// client. The other hooks are for the caller to set.
func TCPFaults(addr string, open func(tb TB, addr string) driver.Backend) *Faults {
	return linkFaults(addr, fault.NewProxy, open)
}

// HTTP2Faults is [TCPFaults] for a store that speaks HTTP/2, as gRPC does. What such a
// server sends next need not belong to a reply: it sends pings, acknowledgements and
// window updates, also before it has looked at a request. DropReply therefore breaks the
// connection at the first frame that is part of a reply. The connection is plain,
// not TLS.
func HTTP2Faults(addr string, open func(tb TB, addr string) driver.Backend) *Faults {
	return linkFaults(addr, fault.NewHTTP2Proxy, open)
}

// linkFaults has the Link hook for a kind of proxy.
func linkFaults(addr string, start func(addr string) (*fault.Proxy, error), open func(tb TB, addr string) driver.Backend) *Faults {
	return &Faults{Link: func(tb TB) (driver.Backend, Link) {
		p, err := start(addr)
		if err != nil {
			tb.Fatalf("proxy to %s: %v", addr, err)
		}
		tb.Cleanup(func() {
			if err := p.Close(); err != nil {
				tb.Errorf("proxy to %s: %v", addr, err)
			}
		})
		return open(tb, p.Addr()), p
	}}
}

// Proxy is a TCP relay with faults: a [Link] for any store that speaks over
// one TCP address. It knows nothing of the protocol.
type Proxy struct{ relay *fault.Proxy }

// NewProxy listens on a free port of the loopback interface and relays to target.
func NewProxy(target string) (*Proxy, error) {
	p, err := fault.NewProxy(target)
	if err != nil {
		return nil, err
	}
	return &Proxy{p}, nil
}

// Addr is where a client connects to.
func (p *Proxy) Addr() string { return p.relay.Addr() }

// Close breaks every connection and ends the proxy.
func (p *Proxy) Close() error { return p.relay.Close() }

// StallRequests implements [Link]: bytes to the store wait until Heal.
func (p *Proxy) StallRequests() { p.relay.StallRequests() }

// StallAfter implements [LateLink]: what the client sends at a time counts as one request.
func (p *Proxy) StallAfter(n int) { p.relay.StallAfter(n) }

// StallReplies implements [Link].
func (p *Proxy) StallReplies() { p.relay.StallReplies() }

// DropReply implements [Link]: what comes next from the store is thrown away, and
// its connection broken. Where a store says something before it has applied a request,
// as over HTTP/2, that may come too early; see [HTTP2Faults].
func (p *Proxy) DropReply() { p.relay.DropReply() }

// Cut implements [Link]: new connections are taken and closed at once.
func (p *Proxy) Cut() { p.relay.Cut() }

// Delay implements [Link].
func (p *Proxy) Delay(d time.Duration) { p.relay.Delay(d) }

// Heal implements [Link]. Bytes that waited go on.
func (p *Proxy) Heal() { p.relay.Heal() }

// Reset implements [Link].
func (p *Proxy) Reset() { p.relay.Reset() }
