package main

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/coordgo/coord"
)

// longestHold is how long a client may have a lock at most.
const longestHold = 10 * time.Minute

func lockKey(r *http.Request) string { return coord.Key("lock", r.PathValue("name")) }

// lock takes a lock for a client. This node renews it until the client gives it back, or its time is over.
func (s *service) lock(w http.ResponseWriter, r *http.Request) {
	hold, err := time.ParseDuration(r.URL.Query().Get("for"))
	if err != nil || hold <= 0 || hold > longestHold {
		problem(w, http.StatusBadRequest, "for: want a duration up to "+longestHold.String()+", such as 30s")
		return
	}
	lock, err := s.client.TryLock(r.Context(), lockKey(r), coord.MaxHold(hold))
	if err != nil {
		failed(w, err)
		return
	}
	s.mu.Lock()
	s.locks[lock.Token()] = lock
	s.mu.Unlock()
	ctx, _ := lock.Context(context.Background()) // ends with the hold
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.locks, lock.Token())
	})
	answer(w, http.StatusCreated, map[string]any{"name": r.PathValue("name"), "token": lock.Token(), "until": time.Now().Add(hold)})
}

// holder shows who has a lock.
func (s *service) holder(w http.ResponseWriter, r *http.Request) {
	h, err := s.client.Inspect(r.Context(), lockKey(r))
	if err != nil {
		failed(w, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"name": r.PathValue("name"), "token": h.Token, "node": h.Name})
}

// unlock gives a lock back, which this node has for a client.
func (s *service) unlock(w http.ResponseWriter, r *http.Request) {
	token, err := strconv.ParseInt(r.PathValue("token"), 10, 64)
	if err != nil {
		problem(w, http.StatusBadRequest, "token: want a number")
		return
	}
	s.mu.Lock()
	lock := s.locks[coord.Token(token)]
	s.mu.Unlock()
	if lock == nil || lock.Key() != lockKey(r) {
		problem(w, http.StatusNotFound, "this node has no such lock")
		return
	}
	if err := lock.Unlock(r.Context()); err != nil {
		failed(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
