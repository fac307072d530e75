package postgres

import (
	"context"
	"errors"
	"net"
	"testing"
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
