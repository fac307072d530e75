package conformance_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain()
	goleak.VerifyTestMain(m)
}

func memoryHarness() conformance.Harness {
	s := memory.NewStore()
	return conformance.Harness{
		Open:   func(conformance.TB) driver.Backend { return s.Open() },
		Claims: memory.Claims,
	}
}

// The reference store, which has every optional part.
func TestMemory(t *testing.T) {
	conformance.RunInFakeTime(t, func(conformance.TB) conformance.Harness {
		h := memoryHarness()
		h.WorkerURL = "memory://conformance" // another process that opens it has another store
		h.Faults = &conformance.Faults{
			Skew: func(tb conformance.TB, _ time.Duration) driver.Backend { return h.Open(tb) }, // the clients have no clock
		}
		return h
	})
}

var shelfInfo = driver.Info{
	Name: "shelf", MinTTL: 10 * time.Millisecond, TTLStep: time.Millisecond, MaxTTL: 24 * 366 * time.Hour,
	Claims: driver.Claims{
		driver.PerHoldTTL, driver.Inspect, driver.Break, driver.Shared, driver.TokenProcess, driver.NoEviction,
		driver.ServerClock, driver.Reserve, driver.Charge, driver.ScopeProcess,
	},
}

// shelf is a map of cells.
type shelf struct {
	mu    sync.Mutex
	cells map[cas.Name]value
}

type value struct {
	data  []byte
	until time.Time
}

type client struct{ *shelf }

func (c client) Update(_ context.Context, n cas.Name, fn cas.Func) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(c.cells, func(_ cas.Name, v value) bool { return !now.Before(v.until) })
	ch, err := fn(c.cells[n].data, now)
	if err != nil || !ch.Write {
		return err
	}
	if ch.Value == nil {
		delete(c.cells, n)
	} else {
		c.cells[n] = value{ch.Value, now.Add(ch.Keep)}
	}
	return nil
}

func (client) Close() error { return nil }
