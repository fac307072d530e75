package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/httpcoord"
)

// service is the API: locks and limits for clients, and orders.
type service struct {
	client *config.Client

	mu     sync.Mutex
	locks  map[coord.Token]*coord.Lock // those that clients have, by this node
	orders map[string]int              // how often each was changed
}

func newService(client *config.Client) *service {
	return &service{client: client, locks: make(map[coord.Token]*coord.Lock), orders: make(map[string]int)}
}

// handler is the whole service, behind the rules of the file.
func (s *service) handler() http.Handler {
	guard := httpcoord.Idempotency{Store: s.client, Required: true}
	one := httpcoord.Locks{Locker: s.client, Key: orderKey, Wait: 10 * time.Second}
	if *withoutLock {
		one.Key = func(*http.Request) string { return "" }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("POST /locks/{name}", s.lock)
	mux.HandleFunc("GET /locks/{name}", s.holder)
	mux.HandleFunc("DELETE /locks/{name}/{token}", s.unlock)
	mux.HandleFunc("POST /limits/{name}/{account}", s.take)
	mux.HandleFunc("GET /limits/{name}/{account}", s.peek)
	mux.Handle("POST /orders", guard.Wrap(http.HandlerFunc(s.order)))
	mux.Handle("PUT /orders/{id}", one.Wrap(http.HandlerFunc(s.change)))
	return httpcoord.Limits{Limiter: s.client, Rules: httpcoord.Live(s.client.Rules)}.Wrap(mux)
}

func (s *service) health(w http.ResponseWriter, r *http.Request) {
	if err := s.client.Ping(r.Context()); err != nil {
		problem(w, http.StatusServiceUnavailable, "the store does not answer")
		return
	}
	answer(w, http.StatusOK, map[string]string{"store": s.client.Info().Name})
}

// order makes an order. Behind the guard, one key makes one.
func (s *service) order(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	s.orders[id] = 0
	s.mu.Unlock()
	answer(w, http.StatusCreated, map[string]string{"id": id})
}

func orderKey(r *http.Request) string { return coord.Key("order", r.PathValue("id")) }

// change reads an order, thinks about it, and writes it. Two at once would lose a change.
func (s *service) change(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.mu.Lock()
	changes := s.orders[id]
	s.mu.Unlock()
	select {
	case <-time.After(5 * time.Millisecond):
	case <-r.Context().Done(): // the lock is lost, or the client has gone: httpcoord answers
		return
	}
	s.mu.Lock()
	s.orders[id] = changes + 1
	s.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"id": id, "changes": changes + 1})
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has gone if it fails
}

// problem is an error as RFC 9457 has them.
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail})
}

// failed answers a call of coord that did not go well.
func failed(w http.ResponseWriter, err error) {
	var e *coord.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		retryAfter(w, e.RetryAfter)
	}
	switch {
	case errors.Is(err, coord.ErrLocked):
		problem(w, http.StatusConflict, "the lock is taken")
	case errors.Is(err, coord.ErrLost):
		problem(w, http.StatusGone, "the lock had ended before")
	case errors.Is(err, coord.ErrNotHeld):
		problem(w, http.StatusNotFound, "the lock is free")
	case errors.Is(err, coord.ErrInvalid):
		problem(w, http.StatusBadRequest, err.Error())
	default:
		problem(w, http.StatusServiceUnavailable, "the store does not answer")
	}
}

// retryAfter is in whole seconds, rounded up.
func retryAfter(w http.ResponseWriter, d time.Duration) {
	w.Header().Set("Retry-After", strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
}
