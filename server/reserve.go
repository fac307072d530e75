package server

import (
	"context"
	"time"

	"github.com/coordgo/coord"
)

// reservation is permits that are due later, which the caller may cancel until then.
type reservation struct {
	c       *caller
	permits *coord.Reservation
	due     *time.Timer
}

type reserveAnswer struct {
	ID    string `json:"id,omitempty" doc:"To cancel it; without one the permits are due"`
	Delay int64  `json:"delay_ms" doc:"How long to wait, from when you had this answer, before you use the permits"`
}

func (s *Server) reserve(ctx context.Context, c *caller, q *demandOf) (*reserveAnswer, error) {
	list, err := s.demands(c, q)
	switch {
	case err != nil:
		return nil, err
	case len(list) > 1:
		return nil, invalid("a reservation of several limits: want one")
	}
	if err := s.count(c); err != nil {
		return nil, err
	}
	r, err := s.client.Reserve(ctx, list[0].Demand.Key, list[0].Demand.Limit, list[0].Demand.N)
	if err != nil {
		s.uncount(c)
		return nil, err
	}
	delay := r.Delay()
	if delay == 0 {
		s.uncount(c)
		return &reserveAnswer{}, nil
	}
	id := s.newID()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved[id] = &reservation{c, r, time.AfterFunc(delay, func() { s.drop(id) })}
	return &reserveAnswer{id, ceilMS(delay)}, nil
}

// count takes the place of a hold, for a reservation.
func (s *Server) count(c *caller) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.holds >= s.cfg.MaxHolds {
		return errHolds
	}
	c.holds++
	return nil
}

func (s *Server) uncount(c *caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.holds--
}

// drop forgets a reservation that is due or cancelled.
func (s *Server) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.reserved[id]; r != nil {
		r.due.Stop()
		delete(s.reserved, id)
		r.c.holds--
	}
}

type cancelAnswer struct {
	ID string `json:"id"`
}

// cancel gives back what is not due yet.
func (s *Server) cancel(ctx context.Context, c *caller, q *idRequest) (*cancelAnswer, error) {
	s.mu.Lock()
	r := s.reserved[q.ID]
	s.mu.Unlock()
	if r == nil || r.c != c {
		return nil, errReservation
	}
	if err := r.permits.Cancel(ctx); err != nil {
		return nil, err
	}
	s.drop(q.ID)
	return &cancelAnswer{q.ID}, nil
}
