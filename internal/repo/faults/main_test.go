package faults

import (
	"context"
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/conformance"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // of clients that lose their servers
	conformance.WorkerMain()
	redis.SetLogger(silent{})
	goleak.VerifyTestMain(m)
}

// silent keeps go-redis from telling of each connection that ends.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
