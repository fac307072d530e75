package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

type valueKey struct{}

func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "v"))
		b := NewBound(parent, time.Second)
		cancel()
		if b.Err() != nil || b.Value(valueKey{}) != "v" {
			t.Errorf("err %v, value %v: want nil and the parent's", b.Err(), b.Value(valueKey{}))
		}
		if d, ok := b.Deadline(); !ok || time.Until(d) != time.Second {
			t.Errorf("deadline %v", d)
		}
		start := time.Now()
		<-b.Done()
		if d := time.Since(start); d != time.Second || b.Err() != context.DeadlineExceeded {
			t.Errorf("done after %v with %v", d, b.Err())
		}
		b.Stop()
		if b.Err() != context.DeadlineExceeded {
			t.Errorf("Stop changed the reason to %v", b.Err())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := NewBound(t.Context(), time.Second)
		child, cancel := context.WithCancel(b)
		defer cancel()
		time.Sleep(time.Second)
		synctest.Wait()
		if child.Err() != context.DeadlineExceeded {
			t.Errorf("the child ended with %v", child.Err())
		}
		late := NewBound(t.Context(), -1)
		if late.Err() != context.DeadlineExceeded {
			t.Errorf("a bound in the past: %v", late.Err())
		}
		<-late.Done()
		stopped := NewBound(t.Context(), time.Hour)
		stopped.Stop()
		<-stopped.Done()
		if stopped.Err() != context.Canceled {
			t.Errorf("stopped: %v", stopped.Err())
		}
	})
}
