package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
)

type keyRequest struct {
	Key string `json:"key" doc:"The key"`
}

type holdersAnswer struct {
	Holders []holderAnswer `json:"holders" doc:"Who holds the key in any mode; nobody is an empty list"`
}

type holderAnswer struct {
	ID      string      `json:"id" doc:"Of the hold at the store, for break"`
	Name    string      `json:"name,omitempty"`
	PID     int         `json:"pid,omitempty" doc:"Process: that of this server for its remote holders"`
	Since   *time.Time  `json:"since,omitempty" doc:"When the holder began to ask"`
	Mode    string      `json:"mode" enum:"exclusive,read,write,permits"`
	Token   coord.Token `json:"token"`
	Left    int64       `json:"left_ms" doc:"What is left of the lease"`
	Waiters int         `json:"waiters,omitempty" doc:"In the queue of the store, where that is known"`
	Weight  int64       `json:"weight,omitempty" doc:"Permits"`
	Of      int64       `json:"of,omitempty" doc:"Of so many permits"`
	Slot    int         `json:"slot,omitempty"`
	Kept    bool        `json:"kept,omitempty" doc:"Nobody holds it: it stays taken, as after a break"`
}

func newHolderAnswer(h coord.Holder) holderAnswer {
	a := holderAnswer{
		ID: h.ID, Name: h.Name, PID: h.PID, Mode: h.Mode.String(), Token: h.Token, Left: ceilMS(h.TTL),
		Waiters: max(h.Waiters, 0), Weight: h.Weight, Of: h.Of, Slot: h.Slot, Kept: h.Released,
	}
	if !h.Since.IsZero() {
		a.Since = &h.Since
	}
	return a
}

func (s *Server) inspect(ctx context.Context, c *caller, q *keyRequest) (*holdersAnswer, error) {
	if err := c.may(config.Read, q.Key); err != nil {
		return nil, err
	}
	return s.holders(ctx, q.Key)
}

// holders are those of a key in every mode.
func (s *Server) holders(ctx context.Context, key string) (*holdersAnswer, error) {
	list, err := s.holdersIn(ctx, key)
	if err != nil {
		return nil, err
	}
	a := (&change{holders: list}).answer()
	return &a, nil
}

func (s *Server) holdersIn(ctx context.Context, key string) (list []coord.Holder, err error) {
	h, err := s.client.Inspect(ctx, key)
	switch {
	case err == nil:
		list = append(list, h)
	case !errors.Is(err, coord.ErrNotHeld):
		return nil, err
	}
	for _, view := range []*coord.Shared{s.client.ReadWrite().Read(), s.client.Semaphore(1)} {
		holders, err := view.Holders(ctx, key)
		if err != nil && !errors.Is(err, coord.ErrUnsupported) {
			return nil, err
		}
		list = append(list, holders...)
	}
	return list, nil
}

type listRequest struct {
	Prefix string `json:"prefix,omitempty" doc:"How the keys begin"`
}

type listAnswer struct {
	Keys []string `json:"keys"`
	More bool     `json:"more,omitempty" doc:"There are more: an answer has up to 1000 keys, of 64 KiB together"`
}

const maxListed = 1000

func (s *Server) list(ctx context.Context, c *caller, q *listRequest) (*listAnswer, error) {
	if err := c.may(config.Read, q.Prefix); err != nil {
		return nil, err
	}
	a, seen, size := &listAnswer{Keys: []string{}}, make(map[string]bool), 0
	for key, err := range s.client.List(ctx, q.Prefix) {
		switch {
		case err != nil:
			return nil, err
		case seen[key]:
			continue
		case len(a.Keys) == maxListed || size+len(key) > maxBody:
			a.More = true
			return a, nil
		}
		seen[key], size = true, size+len(key)
		a.Keys = append(a.Keys, key)
	}
	return a, nil
}

type breakRequest struct {
	Key  string `json:"key" doc:"The key"`
	ID   string `json:"id" doc:"Of the holder, as inspect shows it"`
	Mode string `json:"mode,omitempty" doc:"As inspect shows it; exclusive by default" enum:"exclusive,read,write,permits"`
	Now  bool   `json:"now,omitempty" doc:"Free the key at once: only for a holder that is dead"`
}

type breakAnswer struct {
	ID string `json:"id"`
}

func (s *Server) breakHold(ctx context.Context, c *caller, q *breakRequest) (*breakAnswer, error) {
	if err := c.may(config.Break, q.Key); err != nil {
		return nil, err
	}
	var of interface {
		Break(ctx context.Context, key, holderID string) error
		BreakNow(ctx context.Context, key, holderID string) error
	}
	switch q.Mode {
	case "", "exclusive":
		of = s.client
	case driver.Read.String(), driver.Write.String():
		of = s.client.ReadWrite().Read()
	case driver.Permits.String():
		of = s.client.Semaphore(1)
	default:
		return nil, invalid(fmt.Sprintf("mode %q: want exclusive, read, write or permits", q.Mode))
	}
	end := of.Break
	if q.Now {
		end = of.BreakNow
	}
	return &breakAnswer{q.ID}, end(ctx, q.Key, q.ID)
}
