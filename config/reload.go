package config

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reload reads the file again and takes its limits, with their leases, and rules from then on. What has been
// counted stays counted, as clause R3 of the contract says: a window whose rate changes, or a
// token bucket whose burst does, keeps its account under each key; one whose algorithm
// changes, a window's period or a bucket's rate starts again, and so does a rule with a new name.
//
// Who the callers of the section serve are changes too, where there were some: package server then takes them.
//
// The other values do not change while a Client is open: a file that has others is
// refused, as is one with a mistake. Then nothing changes, and the error says why.
func (c *Client) Reload(ctx context.Context) error {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	text, err := readFile(ctx, c.Config().path)
	if err != nil {
		return err
	}
	return c.reload(ctx, text)
}

// reload is Reload of a file that was read. It is called with c.reloading locked, like the reading, so that
// an older file never replaces a newer one.
func (c *Client) reload(ctx context.Context, text []byte) error {
	old := c.current.Load()
	if old.path == "" {
		return &Error{File: old.name, Problem: "no file to reload: the configuration was not loaded from one"}
	}
	next, err := loadText(old.path, text, old.lookup)
	if err != nil {
		return err
	}
	if old.set {
		if err := next.SetURL(old.places["url"].file, string(old.URL)); err != nil {
			return err
		}
	}
	if err := old.same(next); err != nil {
		return err
	}
	if err := old.sameServe(next); err != nil {
		return err
	}
	if err := c.servable(ctx, next); err != nil {
		return err
	}
	if err := old.changeLeases(c.Client, next); err != nil {
		return err
	}
	c.current.Store(next)
	return nil
}

// same refuses a configuration that differs in more than limits and rules.
func (c *Config) same(next *Config) error {
	was := make(map[string]string)
	for _, v := range c.fixed() {
		was[v.Key] = v.Value
	}
	if !slices.Equal(c.Quorum, next.Quorum) {
		at := next.places["quorum"]
		if at.file == "" {
			at.file = next.name
		}
		return at.mistake("quorum", "other members: only limits and rules change without a restart")
	}
	for _, v := range next.fixed() {
		old, ok := was[v.Key]
		if strings.HasPrefix(v.Key, "quorum.") || ok && old == v.Value && c.url(v.Key) == next.url(v.Key) {
			continue
		}
		at := next.places[v.Key]
		if at.file == "" { // it is a default again
			at.file = next.name
		}
		return at.mistake(v.Key, fmt.Sprintf("%s, was %s: only limits and rules change without a restart", v.Value, or(old, "not set")))
	}
	return nil
}

// url is the one under that key, with what its value does not show.
func (c *Config) url(key string) URL {
	return map[string]URL{"url": c.URL, "url.locks": c.LocksURL, "url.limits": c.LimitsURL}[key]
}

// Watch reloads whenever the content of the file has changed, and calls report with the error
// of each Reload, nil if it worked. It looks once in each period, and takes a change when
// the file has been the same for two looks, so that a file that is just being written is left
// alone. It compares contents: a link that points elsewhere is seen too. A file that cannot be
// read is reported once, until it can. Watch returns when ctx ends. It panics if period is not
// above zero.
func (c *Client) Watch(ctx context.Context, period time.Duration, report func(error)) {
	w := watch{client: c, report: report, seen: c.Config().sum}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.look(ctx)
		}
	}
}

// watch is what Watch has seen.
type watch struct {
	client  *Client
	report  func(error)
	seen    sum  // of the content at the last look
	refused sum  // of the content that was refused last
	failed  bool // to read it, at the last look
	wrong   bool // the last report was an error
}

func (w *watch) look(ctx context.Context) {
	if changed, err := w.reload(ctx); changed {
		w.wrong = err != nil
		w.report(err)
	}
}

// reload takes the file if it has settled and is not what is in force. Where it is that again after an error,
// that is reported too.
func (w *watch) reload(ctx context.Context) (changed bool, err error) {
	c := w.client
	c.reloading.Lock()
	defer c.reloading.Unlock()
	text, err := readFile(ctx, c.Config().path)
	if err != nil {
		changed, w.failed = !w.failed, true
		return changed, err
	}
	w.failed = false
	now := sha256.Sum256(text)
	settled := now == w.seen
	w.seen = now
	switch {
	case !settled || now == w.refused:
		return false, nil
	case now == c.Config().sum:
		w.refused = sum{}
		return w.wrong, nil
	}
	w.refused = sum{}
	if err = c.reload(ctx, text); err != nil {
		w.refused = now
	}
	return true, err
}
