package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
)

// stream writes server-sent events. A caller who does not take them in time has gone.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func newStream(w http.ResponseWriter) *stream {
	return &stream{w: w, control: http.NewResponseController(w)}
}

// send writes one event; without a name, a comment that shows that the stream lives.
func (s *stream) send(name string, data any) error {
	s.begin()
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // a value that always marshals
	}
	if name == "" {
		_, err = s.w.Write([]byte(":\n\n"))
	} else {
		_, err = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, text)
	}
	return errors.Join(err, s.control.Flush())
}

// begin makes ready for an event.
func (s *stream) begin() {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-store")
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(ioTime))
}

// fail tells an error: as the answer, if nothing was sent before.
func (s *stream) fail(err error) error {
	if !s.begun {
		fail(s.w, err)
		return err
	}
	_, p := problemOf(err)
	return s.send("error", p)
}

// beat is how often a stream shows that it lives, and so finds out whether its caller does.
const beat = time.Second

// streamAnswer is what a held stream tells, for display. It says nothing of a time: the caller may believe nothing by
// it.
type streamAnswer struct {
	Token coord.Token  `json:"token,omitempty" doc:"Fencing token of the only key"`
	Locks []lockAnswer `json:"locks"`
}

// hold holds keys for as long as the caller stays connected.
func (s *Server) hold(w http.ResponseWriter, r *http.Request) {
	q, c := new(acquireRequest), callerOf(r)
	out := newStream(w)
	if err := decode(w, r, q); err != nil {
		_ = out.fail(err)
		return
	}
	if q.RequestID != "" {
		_ = out.fail(invalid("request_id with a held stream: want none"))
		return
	}
	h, err := s.acquired(r.Context(), c, q)
	if err != nil {
		_ = out.fail(err)
		return
	}
	defer func() { _, _ = h.release(context.Background()) }()
	tick := time.NewTicker(min(beat, h.ttl/3))
	defer tick.Stop()
	name := "held"
	for {
		a, err := h.promise()
		if err == nil && a.Draining {
			err = errDraining
		}
		if err != nil {
			_ = out.fail(err)
			return
		}
		if out.send(name, streamAnswer{a.Token, a.Locks}) != nil {
			return
		}
		name = "" // what it holds does not change
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-s.ending.Done():
		}
	}
}

// watch tells who holds a key, and then each change, until the caller leaves or the server ends.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	unhurried(w)
	key, out, c := r.URL.Query().Get("key"), newStream(w), callerOf(r)
	if err := c.may(config.Read, key); err != nil {
		_ = out.fail(err)
		return
	}
	ctx, cancel := s.untilDraining(r.Context())
	defer cancel()
	changes, err := s.changes(ctx, key, r.URL.Query().Get("mode"))
	if err != nil {
		_ = out.fail(err)
		return
	}
	told := make(chan change)
	go func() {
		defer close(told)
		defer func() {
			if p := recover(); p != nil {
				_ = s.panicked(p)
			}
		}()
		for holders, err := range changes {
			select {
			case told <- change{holders, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		cancel()
		for range told { // the watch has ended when it is closed
		}
	}()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		var err error
		select {
		case news, ok := <-told:
			switch {
			case !ok:
				return
			case news.err != nil:
				err = out.fail(news.err)
			default:
				err = out.send("holders", news.answer())
			}
		case <-tick.C:
			switch {
			case c.gone():
				_ = out.fail(errToken)
				return
			case out.begun:
				err = out.send("", nil)
			}
		}
		if err != nil {
			return
		}
	}
}

// change is what a watch has seen.
type change struct {
	holders []coord.Holder
	err     error
}

func (c *change) answer() holdersAnswer {
	a := holdersAnswer{Holders: []holderAnswer{}}
	for _, h := range c.holders {
		a.Holders = append(a.Holders, newHolderAnswer(h))
	}
	return a
}

// changes is the watch of a key in a mode.
func (s *Server) changes(ctx context.Context, key, mode string) (iter.Seq2[[]coord.Holder, error], error) {
	switch mode {
	case "", "exclusive":
		return func(yield func([]coord.Holder, error) bool) {
			for h, err := range s.client.Client.Watch(ctx, key) {
				holders := []coord.Holder{h}
				if errors.Is(err, coord.ErrNotHeld) {
					holders, err = nil, nil
				}
				if !yield(holders, err) {
					return
				}
			}
		}, nil
	case "read", "write":
		return s.client.ReadWrite().Read().Watch(ctx, key), nil
	case "permits":
		return s.client.Semaphore(1).Watch(ctx, key), nil
	}
	return nil, invalid(fmt.Sprintf("mode %q: want exclusive, read, write or permits", mode))
}
