package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
)

// scenario is a client of the service, which asks for everything once and looks at the answers.
type scenario struct {
	base   string
	client *http.Client
	say    func(line string)
}

// reply is what the service said.
type reply struct {
	Status    int
	Header    http.Header
	Token     int64 `json:"token,string"`
	Remaining int   `json:"remaining"`
	Changes   int   `json:"changes"`
}

// play is the scenario. Its names are new each time, so that it can be played again on the same store.
func (s *scenario) play(ctx context.Context) error {
	name := rand.Text()[:8]
	for _, part := range []struct {
		what string
		do   func(context.Context, string) error
	}{
		{"the service is healthy, and says what is left of its rules", s.health},
		{"a lock is had by one client at a time, and tokens rise", s.locks},
		{"a limit of 3 in an hour admits 3", s.limits},
		{"an order that is sent twice at once, and again, is made once", s.orders},
		{"of ten changes at once none is lost", s.changes},
	} {
		if err := part.do(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", part.what, err)
		}
		s.say(part.what)
	}
	return nil
}

// ask makes a request, which has to be answered with one of the statuses.
func (s *scenario) ask(ctx context.Context, method, path, key string, want ...int) (r reply, err error) {
	request, err := http.NewRequestWithContext(ctx, method, s.base+path, nil)
	if err != nil {
		return r, err
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return r, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return r, err
	}
	if !slices.Contains(want, response.StatusCode) {
		return r, fmt.Errorf("%s %s: %s %s: want %v", method, path, response.Status, text, want)
	}
	if len(text) > 0 {
		err = json.Unmarshal(text, &r)
	}
	r.Status, r.Header = response.StatusCode, response.Header
	return r, err
}

func (s *scenario) health(ctx context.Context, name string) error {
	if _, err := s.ask(ctx, "GET", "/healthz", "", 200); err != nil {
		return err
	}
	r, err := s.ask(ctx, "GET", "/locks/"+name, "", 404)
	if err == nil && r.Header.Get("RateLimit") == "" {
		return fmt.Errorf("no RateLimit in %v", r.Header)
	}
	return err
}

func (s *scenario) locks(ctx context.Context, name string) error {
	path := "/locks/" + name
	var last int64
	for range 2 {
		mine, err := s.ask(ctx, "POST", path+"?for=1m", "", 201)
		if err != nil {
			return err
		}
		if mine.Token <= last {
			return fmt.Errorf("token %d after %d", mine.Token, last)
		}
		last = mine.Token
		if _, err := s.ask(ctx, "POST", path+"?for=1m", "", 409); err != nil {
			return err
		}
		if shown, err := s.ask(ctx, "GET", path, "", 200); err != nil || shown.Token != last {
			return fmt.Errorf("token %d is shown as %d: %w", last, shown.Token, err)
		}
		if _, err := s.ask(ctx, "DELETE", fmt.Sprintf("%s/%d", path, last), "", 204); err != nil {
			return err
		}
	}
	_, err := s.ask(ctx, "DELETE", fmt.Sprintf("%s/%d", path, last), "", 404)
	return err
}

func (s *scenario) limits(ctx context.Context, name string) error {
	path := "/limits/trial/" + name
	for _, want := range []int{200, 200, 200, 429} {
		if _, err := s.ask(ctx, "POST", path, "", want); err != nil {
			return err
		}
	}
	r, err := s.ask(ctx, "GET", path, "", 200)
	if err == nil && r.Remaining != 0 {
		return fmt.Errorf("%d are left", r.Remaining)
	}
	return err
}

func (s *scenario) orders(ctx context.Context, name string) error {
	made, err := s.atOnce(2, func() (reply, error) { return s.ask(ctx, "POST", "/orders", name, 201, 409) })
	if err != nil {
		return err
	}
	if made[0].Status == made[1].Status {
		return fmt.Errorf("both were answered with %d", made[0].Status)
	}
	_, err = s.ask(ctx, "POST", "/orders", name, 409)
	return err
}

func (s *scenario) changes(ctx context.Context, name string) error {
	made, err := s.atOnce(10, func() (reply, error) { return s.ask(ctx, "PUT", "/orders/"+name, "", 200) })
	if err != nil {
		return err
	}
	most := slices.MaxFunc(made, func(a, b reply) int { return a.Changes - b.Changes }).Changes
	if most != len(made) {
		return fmt.Errorf("%d changes were made, and %d are there", len(made), most)
	}
	return nil
}

// atOnce makes n requests at once.
func (s *scenario) atOnce(n int, ask func() (reply, error)) ([]reply, error) {
	replies, errs := make([]reply, n), make(chan error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var err error
			if replies[i], err = ask(); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	return replies, <-errs
}
