package zookeeper

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// Operations of the protocol.
const (
	opCreate     = 1
	opDelete     = 2
	opExists     = 3
	opGet        = 4
	opSet        = 5
	opSync       = 9
	opPing       = 11
	opChildren   = 12
	opMulti      = 14
	opAuth       = 100
	opSetWatches = 101
	opConnect    = -1000 // ours, for the first message of a connection
)

// deed is what becomes of a request.
type deed int

const (
	pass    deed = iota
	refuse       // answer with an error: that it is not implemented
	cut          // break the connection before it
	dropOne      // let it through, and break the connection instead of answering
	hold         // keep this and what follows back until release
)

// tap is a proxy that reads the protocol, counts requests and disturbs them.
type tap struct {
	t      testing.TB
	l      net.Listener
	target string
	answer int32 // to what is refused
	wg     sync.WaitGroup

	mu    sync.Mutex
	ops   []int32
	rule  func(op int32) deed
	conns map[net.Conn]struct{}
	shut  bool
	free  chan struct{} // closed by release
}

func newTap(t testing.TB, target string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{t: t, l: l, target: target, answer: -6, conns: make(map[net.Conn]struct{}), free: make(chan struct{})}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.shut = true
		p.mu.Unlock()
		p.release()
		_ = l.Close()
		p.breakAll()
		p.wg.Wait()
	})
	return p
}

func (p *tap) addr() string { return p.l.Addr().String() }

// disturb sets what becomes of requests; nil ends it.
func (p *tap) disturb(rule func(op int32) deed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// once disturbs the next request of one kind.
func (p *tap) once(want int32, d deed) <-chan struct{} {
	done := make(chan struct{})
	var once sync.Once
	p.disturb(func(op int32) deed {
		hit := false
		if op == want {
			once.Do(func() { hit = true; close(done) })
		}
		if hit {
			return d
		}
		return pass
	})
	return done
}

func (p *tap) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.free:
	default:
		close(p.free)
	}
}

// take gives the requests since the last call, without pings and handshakes.
func (p *tap) take() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []int32
	for _, op := range p.ops {
		if op != opPing && op != opConnect {
			out = append(out, op)
		}
	}
	p.ops = nil
	return out
}

func (p *tap) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *tap) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

func (p *tap) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, hung)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	if p.shut {
		closeBoth(client, server)
	}
	p.mu.Unlock()
	end := func() {
		closeBoth(client, server)
		p.mu.Lock()
		delete(p.conns, client)
		delete(p.conns, server)
		p.mu.Unlock()
	}
	defer end()
	head := make([]byte, 4)
	if _, err := io.ReadFull(client, head); err != nil {
		return
	}
	if string(head) == "srvr" { // no session: a question in the clear
		if _, err := server.Write(head); err == nil {
			_, _ = io.Copy(client, server) // either may go at any time
		}
		return
	}
	requests := io.MultiReader(bytes.NewReader(head), client)
	var mu sync.Mutex // guards writes to client, and drop
	drop := map[int32]bool{}
	p.wg.Go(func() {
		defer end()
		for first := true; ; first = false {
			frame, err := readFrame(server)
			if err != nil {
				return
			}
			mu.Lock()
			if !first && drop[int32(binary.BigEndian.Uint32(frame[4:]))] {
				mu.Unlock()
				return
			}
			_, err = client.Write(frame)
			mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	for first := true; ; first = false {
		frame, err := readFrame(requests)
		if err != nil {
			return
		}
		op, xid := int32(opConnect), int32(0)
		if !first {
			xid = int32(binary.BigEndian.Uint32(frame[4:]))
			op = int32(binary.BigEndian.Uint32(frame[8:]))
		}
		p.mu.Lock()
		p.ops = append(p.ops, op)
		what := pass
		if p.rule != nil {
			what = p.rule(op)
		}
		free := p.free
		p.mu.Unlock()
		switch what {
		case refuse:
			reply := binary.BigEndian.AppendUint32(nil, 16)
			reply = binary.BigEndian.AppendUint32(reply, uint32(xid))
			reply = binary.BigEndian.AppendUint64(reply, 1)
			reply = binary.BigEndian.AppendUint32(reply, uint32(p.answer))
			mu.Lock()
			_, err = client.Write(reply)
			mu.Unlock()
			if err != nil {
				return
			}
			continue
		case cut:
			return
		case dropOne:
			mu.Lock()
			drop[xid] = true
			mu.Unlock()
		case hold:
			<-free
		}
		if _, err := server.Write(frame); err != nil {
			return
		}
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n > 8<<20 {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := append(head, make([]byte, n)...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// openTapped connects to the server that tests share through a tap.
func openTapped(t testing.TB) (*tap, *backend) {
	t.Helper()
	p := newTap(t, shared(t).Addr)
	return p, connect(t, urlWith(t, p.addr(), calmSession))
}

func closeBoth(a, b net.Conn) {
	_ = a.Close()
	_ = b.Close()
}
