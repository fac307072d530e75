package cas_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shelf is a store in memory with a clock that tests set and faults that they
// plan. It has both forms: its methods Load and CompareAndSwap are Versions, and
// atomic{shelf} are Cells.
type shelf struct {
	mu     sync.Mutex
	now    time.Time
	cells  map[cas.Name]cell
	serial int
	writes int
	loads  int
	closed int
	pings  int
	// fault, if set, is asked at each step of a swap: "ping", "load", "before"
	// and "after" the effect. Conflict says that another client was faster.
	fault func(step string) error
}

type cell struct {
	value   []byte
	version int
	until   time.Time
}

var (
	errConflict = errors.New("conflict")
	errNetwork  = errors.New("connection reset")
)

func newShelf() *shelf {
	return &shelf{now: time.Unix(1_700_000_000, 0), cells: make(map[cas.Name]cell)}
}

func (s *shelf) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *shelf) plan(fault func(step string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *shelf) check(step string) error {
	if s.fault == nil {
		return nil
	}
	return s.fault(step)
}

// get collects a cell as soon as it may, which is the hardest case.
func (s *shelf) get(n cas.Name) cell {
	c, ok := s.cells[n]
	if ok && !s.now.Before(c.until) {
		delete(s.cells, n)
		return cell{}
	}
	return c
}

func (s *shelf) put(n cas.Name, c cas.Change) {
	s.writes++
	s.serial++
	if c.Value == nil {
		delete(s.cells, n)
		return
	}
	s.cells[n] = cell{bytes.Clone(c.Value), s.serial, s.now.Add(c.Keep)}
}

func (s *shelf) Load(_ context.Context, n cas.Name) (cas.Loaded[int], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	if err := s.check("load"); err != nil {
		return cas.Loaded[int]{}, err
	}
	c := s.get(n)
	return cas.Loaded[int]{Value: c.value, Version: c.version, Now: s.now}, nil
}

func (s *shelf) CompareAndSwap(_ context.Context, n cas.Name, loaded int, c cas.Change) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check("before"); errors.Is(err, errConflict) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if s.get(n).version != loaded {
		return false, nil
	}
	s.put(n, c)
	return true, s.check("after")
}

func (s *shelf) Ping(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pings++
	return s.check("ping")
}

func (s *shelf) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

// atomic are the cells of a store with transactions.
type atomic struct{ *shelf }

func (a atomic) Update(_ context.Context, n cas.Name, fn cas.Func) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.check("before"); err != nil {
		return err
	}
	// The second call has to come to the same as the first.
	if _, err := fn(nil, a.now.Add(-time.Hour)); err != nil && !driver.Definite(err) {
		return err
	}
	c, err := fn(a.get(n).value, a.now)
	if err != nil {
		return err
	}
	if c.Write {
		a.put(n, c)
	}
	return a.check("after")
}

var info = driver.Info{Name: "shelf", MinTTL: time.Millisecond, TTLStep: time.Millisecond, Claims: driver.Claims{driver.PerHoldTTL}}

// eachForm runs test on a backend over each form of cells.
func eachForm(t *testing.T, test func(t *testing.T, s *shelf, b *cas.Backend)) {
	t.Run("atomic", func(t *testing.T) {
		s := newShelf()
		test(t, s, cas.New(info, atomic{s}))
	})
	t.Run("optimistic", func(t *testing.T) {
		s := newShelf()
		test(t, s, cas.New(info, cas.Optimistic(s)))
	})
}
