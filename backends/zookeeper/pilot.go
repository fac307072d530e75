package zookeeper

import (
	"sync"
	"sync/atomic"
	"time"
)

// flight carries a trip: a goroutine makes it, another waits for it. A flight that has landed is used again.
type flight struct {
	trip   trip
	state  atomic.Int32
	landed chan struct{}
	look   *time.Timer
}

// A flight has landed, or nobody waits for it any more; whichever is first.
const (
	flying int32 = iota
	landed
	abandoned
)

var flights = sync.Pool{New: func() any {
	f := &flight{landed: make(chan struct{}, 1), look: time.NewTimer(downLook)}
	f.look.Stop()
	return f
}}

// reuse gives back a flight that has landed. Nobody else knows it any more.
func (f *flight) reuse() {
	f.look.Stop()
	f.trip = nil
	flights.Put(f)
}

func (f *flight) fly() {
	f.trip.do()
	if f.state.CompareAndSwap(flying, landed) {
		f.landed <- struct{}{}
		return
	}
	f.trip.late()
}

// maxIdle is how many goroutines wait for the next flight, so that not each needs a new one.
const maxIdle = 4

// takeOff has a goroutine make a flight; false after Close.
func (b *backend) takeOff(f *flight) bool {
	select {
	case b.runway <- f:
		return true
	default:
	}
	if b.wire == nil {
		// The application's connection may outlive this backend.
		go b.pilot(f)
		return true
	}
	return b.start(func() { b.pilot(f) })
}

// pilot makes flights until enough others wait for one.
func (b *backend) pilot(f *flight) {
	for {
		f.fly()
		if b.idle.Add(1) > maxIdle {
			b.idle.Add(-1)
			return
		}
		select {
		case f = <-b.runway:
			b.idle.Add(-1)
		case <-b.closing:
			return
		}
	}
}
