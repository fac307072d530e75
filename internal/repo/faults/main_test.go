package faults

import (
	"context"
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/conformance"
)

// attackerMain makes an attacker of this process if it was started as one.
var attackerMain = func() {}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // of clients that lose their servers
	redis.SetLogger(silent{})
	attackerMain()
	conformance.WorkerMain()
	goleak.VerifyTestMain(m)
}

// silent keeps go-redis from telling of each connection that ends.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
