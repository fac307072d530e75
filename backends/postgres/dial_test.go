package postgres

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coordgo/coord/conformance"
)

// One connection to a host is being made at a time, until it can be used or came to nothing. Another host is not kept waiting.
func TestConnectionsTakeTurns(t *testing.T) {
	t.Parallel()
	var hosts []string
	for range 2 {
		l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
		defer l.Close()
		hosts = append(hosts, l.Addr().String())
	}
	cs := newConnections()
	defer cs.close()
	dial := func(host string) *connection {
		t.Helper()
		return must[net.Conn](t)(cs.dial(t.Context(), "tcp", host)).(*connection)
	}
	waits := func(when string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := cs.turn(ctx, hosts[0]); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want no turn", when, err)
		}
	}
	first := dial(hosts[0])
	waits("while one is being made")
	if err := dial(hosts[1]).Close(); err != nil {
		t.Error(err)
	}
	first.made()
	second := dial(hosts[0])
	waits("while the second is being made")
	if err := errors.Join(first.Close(), first.Close()); err == nil {
		t.Error("a connection was closed twice without an error")
	}
	waits("after the first was closed, whose turn was over")
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := dial(hosts[0]).Close(); err != nil {
		t.Error(err)
	}
}

// A cancel request that nobody answers, as where a proxy takes connections for a server that is frozen, ends as a connection
// does that is not made in time, and with it its turn. Connections that are in use have no such bound.
func TestSilentCancelRequestEnds(t *testing.T) {
	t.Parallel()
	srv := server(t)
	link := must[*conformance.Proxy](t)(conformance.NewProxy(srv.Addr))
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	acquire := func(addr string) *pgxpool.Conn {
		return must[*pgxpool.Conn](t)(open(t, patientURL(t, addr)).pool.Acquire(t.Context()))
	}
	silent, used := acquire(link.Addr()), acquire(srv.Addr)
	defer silent.Release()
	defer used.Release()
	link.StallRequests()
	began, over := time.Now(), make(chan error, 1)
	go func() { over <- silent.Conn().PgConn().CancelRequest(context.Background()) }()
	select {
	case <-over:
	case <-time.After(hung):
		t.Fatalf("a cancel request waits for its answer since %v", time.Since(began))
	}
	if err := used.Ping(t.Context()); err != nil {
		t.Errorf("a connection that was made %v ago: %v", time.Since(began), err)
	}
}
