package etcd

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// relay passes connections on to a server, but for one that it takes and does not answer.
type relay struct {
	net.Listener
	target string
	wg     sync.WaitGroup

	mu     sync.Mutex
	conns  []net.Conn
	silent bool // the next connection is not answered
	taken  []time.Time
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, target: target}
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		l.Close()
		r.breakAll(false)
		r.wg.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		in, err := r.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		silent := r.silent
		r.silent = false
		r.conns = append(r.conns, in)
		r.taken = append(r.taken, time.Now())
		r.mu.Unlock()
		if silent {
			continue
		}
		out, err := net.Dial("tcp", r.target)
		if err != nil {
			in.Close()
			continue
		}
		r.wg.Go(func() { io.Copy(out, in); out.Close() })
		r.wg.Go(func() { io.Copy(in, out); in.Close() })
	}
}

// breakAll ends all connections; the next one is answered or not.
func (r *relay) breakAll(silent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns, r.taken, r.silent = nil, nil, silent
}

func (r *relay) accepted() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]time.Time(nil), r.taken...)
}

// A connection that is taken and not answered, as by a balancer whose server has gone, is given up before a
// lease of a few seconds is over.
func TestConnectionThatIsNotAnsweredIsGivenUp(t *testing.T) {
	t.Parallel()
	srv := shared(t)
	r := newRelay(t, srv.Addr)
	b, err := openURL(t, t.Context(), "etcd://"+r.Addr().String()+"/"+testserver.NameOf(t))
	if err != nil {
		t.Fatal(err)
	}
	hold := request("a", 20*time.Second)
	must[driver.Grant](t)(b.TryLock(t.Context(), "k", hold))
	r.breakAll(true)
	until(t, hung, "a renewal after a connection that was not answered", func() bool {
		_, err := b.Renew(t.Context(), "k", hold)
		return err == nil
	})
	at := r.accepted()
	if len(at) < 2 {
		t.Fatalf("%d connections were made, want one that was not answered and one that was", len(at))
	}
	if took := at[1].Sub(at[0]); took > defaultTimeout-time.Second {
		t.Errorf("the silent connection was given up after %v, want %v", took, connectWithin)
	}
}
