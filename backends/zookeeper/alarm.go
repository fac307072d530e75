package zookeeper

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// alarm is a timer of an entry. It is used again for others: one that fires late fires for an entry that has
// nothing to do then, and finds that out.
type alarm struct {
	timer *time.Timer
	entry atomic.Pointer[entry]
}

var alarms sync.Pool

// alarmOf gives an alarm that is not set.
func alarmOf(e *entry) *alarm {
	a, ok := alarms.Get().(*alarm)
	if !ok {
		a = &alarm{}
		a.timer = time.AfterFunc(math.MaxInt64, a.fire)
	}
	a.entry.Store(e)
	return a
}

func (a *alarm) fire() {
	if e := a.entry.Load(); e != nil {
		e.due()
	}
}

// off ends the use of an alarm.
func (a *alarm) off() {
	a.timer.Stop()
	a.entry.Store(nil)
	alarms.Put(a)
}
