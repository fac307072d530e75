package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dunglas/httpsfv"
)

// ledger stands before the limits of all servers: it notes when each request was admitted, and reads the fields of every answer.
type ledger struct {
	policies map[string]int64 // by name, what q has to be

	mu        sync.Mutex
	admitted  []admission
	denied    int
	malformed int
	first     error // of those that were malformed
}

// admission is when a request began and when it was answered: the limit admitted it in between.
type admission struct{ began, ended time.Time }

// before is next with the ledger before it.
func (l *ledger) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, out := time.Now(), &status{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(out, r)
		ended := time.Now()
		err := l.read(out.code, w.Header())
		if r.Context().Err() != nil && out.code != http.StatusOK {
			return // the client has gone, and nobody was answered
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		switch out.code {
		case http.StatusOK:
			l.admitted = append(l.admitted, admission{began, ended})
		case http.StatusTooManyRequests:
			l.denied++
		}
		if err != nil {
			l.malformed++
			l.first = cmp.Or(l.first, err)
		}
	})
}

// status remembers the status of an answer.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// read reads the fields of one answer with a library of structured fields, and holds them against each other.
func (l *ledger) read(code int, h http.Header) error {
	policies, err := list(h, "RateLimit-Policy", "q")
	if err != nil {
		return err
	}
	for name, q := range policies {
		if q != l.policies[name] {
			return fmt.Errorf("RateLimit-Policy: %q has q=%d, want %d", name, q, l.policies[name])
		}
	}
	left, err := list(h, "RateLimit", "r")
	if err != nil {
		return err
	}
	if len(policies) != len(l.policies) || len(left) != len(l.policies) {
		return fmt.Errorf("%d policies and %d limits, want %d", len(policies), len(left), len(l.policies))
	}
	after := h.Get("Retry-After")
	switch seconds, err := strconv.ParseUint(after, 10, 63); {
	case code == http.StatusOK && after == "":
		return nil
	case code == http.StatusTooManyRequests && err == nil && seconds > 0:
		if !slices.Contains(values(left), 0) {
			return fmt.Errorf("denied with %v left", left)
		}
		return nil
	}
	return fmt.Errorf("status %d with Retry-After %q", code, after)
}

// list reads a field whose members are Strings, and gives one parameter of each, an Integer.
func list(h http.Header, field, param string) (map[string]int64, error) {
	members, err := httpsfv.UnmarshalList(h.Values(field))
	if err != nil {
		return nil, fmt.Errorf("%s: %q: %w", field, h.Values(field), err)
	}
	found := make(map[string]int64)
	for _, m := range members {
		item, ok := m.(httpsfv.Item)
		if !ok {
			return nil, fmt.Errorf("%s: a member is no Item", field)
		}
		name, isString := item.Value.(string)
		value, _ := item.Params.Get(param)
		n, isInteger := value.(int64)
		if !isString || !isInteger || n < 0 {
			return nil, fmt.Errorf("%s: member %v, parameter %s=%v", field, item.Value, param, value)
		}
		found[name] = n
	}
	return found, nil
}

func values(m map[string]int64) (all []int64) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// most is the most requests that were admitted within d for certain, wherever it begins.
func (l *ledger) most(d time.Duration) (most int) {
	slices.SortFunc(l.admitted, func(a, b admission) int { return a.began.Compare(b.began) })
	for i, a := range l.admitted {
		n, end := 0, a.began.Add(d)
		for _, b := range l.admitted[i:] {
			if !b.began.Before(end) {
				break
			}
			if b.ended.Before(end) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// err says what was wrong with answers, nil if nothing was.
func (l *ledger) err() error {
	if l.malformed == 0 {
		return nil
	}
	return errors.Join(fmt.Errorf("%d answers could not be read", l.malformed), l.first)
}
