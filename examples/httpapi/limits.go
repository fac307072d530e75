package main

import (
	"net/http"

	"github.com/coordgo/coord"
)

// account is the limit that a request names, and the key under which it counts. The limits are those of coord.yaml.
func (s *service) account(w http.ResponseWriter, r *http.Request) (key string, limit coord.Limit, ok bool) {
	limit, err := s.client.Limit(r.PathValue("name"))
	if err != nil {
		problem(w, http.StatusNotFound, "no limit has this name")
		return "", limit, false
	}
	return coord.Key("limit", r.PathValue("name"), r.PathValue("account")), limit, true
}

// take takes a permit for a client.
func (s *service) take(w http.ResponseWriter, r *http.Request) {
	key, limit, ok := s.account(w, r)
	if !ok {
		return
	}
	result, err := s.client.Allow(r.Context(), key, limit)
	switch {
	case err != nil:
		failed(w, err)
	case !result.Allowed:
		retryAfter(w, result.RetryAfter)
		problem(w, http.StatusTooManyRequests, "the limit is "+limit.String())
	default:
		answer(w, http.StatusOK, map[string]any{"limit": limit.String(), "remaining": result.Remaining})
	}
}

// peek shows what is left, and takes nothing.
func (s *service) peek(w http.ResponseWriter, r *http.Request) {
	key, limit, ok := s.account(w, r)
	if !ok {
		return
	}
	result, err := s.client.Peek(r.Context(), key, limit)
	if err != nil {
		failed(w, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"limit": limit.String(), "remaining": result.Remaining})
}
