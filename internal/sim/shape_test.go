package sim

import "github.com/coordgo/coord/driver"

// backend is l with the interfaces that the plan's shape has.
func (l *link) backend() driver.Backend {
	b, q, u := batches{l, l.Renew}, queues{l}, delays{l}
	s := l.w.plan.shape
	s.pushes = false // that is of the shared part
	switch s {
	case shape{batch: true}:
		return struct {
			*link
			batches
		}{l, b}
	case shape{delayed: true}:
		return struct {
			*link
			delays
		}{l, u}
	case shape{batch: true, delayed: true}:
		return struct {
			*link
			batches
			delays
		}{l, b, u}
	case shape{queue: true}:
		return struct {
			*link
			queues
		}{l, q}
	case shape{queue: true, batch: true}:
		return struct {
			*link
			queues
			batches
		}{l, q, b}
	case shape{queue: true, delayed: true}:
		return struct {
			*link
			queues
			delays
		}{l, q, u}
	case shape{queue: true, batch: true, delayed: true}:
		return struct {
			*link
			queues
			batches
			delays
		}{l, q, b, u}
	}
	return l
}
