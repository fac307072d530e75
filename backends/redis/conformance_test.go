package redis

import (
	"context"
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestConformance(t *testing.T) {
	srv := testserver.Redis(t)
	open := func(tb conformance.TB, addr string) driver.Backend {
		client := redis.NewClient(clientOptions(addr))
		tb.Cleanup(func() {
			if err := client.Close(); err != nil {
				tb.Errorf("close the application's client: %v", err)
			}
		})
		b, err := New(client, WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			tb.Fatalf("New: %v", err)
		}
		return b
	}
	faults := conformance.TCPFaults(srv.Addr, open)
	if srv.Owned {
		faults.Kill = func(conformance.TB) { srv.Kill() }
		faults.Restart = func(conformance.TB) { srv.Restart() }
		faults.Pause = func(conformance.TB) { srv.Pause() }
		faults.Resume = func(conformance.TB) { srv.Resume() }
		faults.Wipe = func(tb conformance.TB) {
			client := redis.NewClient(clientOptions(srv.Addr))
			if err := client.FlushAll(context.Background()).Err(); err != nil {
				tb.Fatalf("FLUSHALL: %v", err)
			}
			if err := client.Close(); err != nil {
				tb.Fatalf("close: %v", err)
			}
		}
	}
	conformance.Run(t, conformance.Harness{
		Open:      func(tb conformance.TB) driver.Backend { return open(tb, srv.Addr) },
		Claims:    Claims,
		Faults:    faults,
		WorkerURL: "redis://" + srv.Addr + "/0",
	})
}
