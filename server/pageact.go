package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"

	"github.com/coordgo/coord/config"
)

// wasDone is what the page says after it has done something.
var wasDone = map[string]string{
	"break": "The hold is broken. The key stays taken until its lease ends.",
	"free":  "The key was freed.",
	"reset": "The limit was reset: all of its permits are there again.",
}

// afterwards is the query of the page that says so. The proof keeps other addresses from saying what was not done.
func (p *page) afterwards(done, key string) url.Values {
	q := url.Values{"done": {done}, "proof": {p.proof(done, key)}}
	if key != "" {
		q.Set("key", key)
	}
	return q
}

func (p *page) proof(done, key string) string {
	mac := hmac.New(sha256.New, []byte(p.secret))
	_, _ = fmt.Fprintf(mac, "%q %q", done, key) // it never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// doneBy is what the page says to a request with such a query; "" is nothing.
func (p *page) doneBy(q url.Values) string {
	done := q.Get("done")
	if !hmac.Equal([]byte(q.Get("proof")), []byte(p.proof(done, q.Get("key")))) {
		return ""
	}
	return wasDone[done]
}

var (
	errNoAct   = &failure{http.StatusForbidden, "forbidden", "The configuration of this server does not let the page act: it wants serve.page: act."}
	errEnded   = &failure{http.StatusNotFound, "not_held", "This hold has ended."}
	errNoLimit = &failure{http.StatusNotFound, "no_such_path", "This server does not know the limit any more."}
	errUnsure  = &failure{http.StatusBadRequest, "invalid", "Nothing was done: say that the holder is dead, or break the hold."}
)

// mayAct reports whether the page acts on a key for a caller.
func (p *page) mayAct(c *caller, key string) bool { return p.actsOn(c, key) == nil }

func (p *page) actsOn(c *caller, key string) error {
	if p.s.cfg.Page != config.PageAct {
		return errNoAct
	}
	if err := c.may(config.Read, key); err != nil {
		return err
	}
	return c.may(config.Break, key)
}

// holdOf is the hold that a request is about, as the store shows it now.
func (p *page) holdOf(r *http.Request, c *caller) (*view, error) {
	q := r.URL.Query()
	key := q.Get("key")
	if err := p.actsOn(c, key); err != nil {
		return nil, err
	}
	seen, err := p.sampler.holders(r.Context(), key)
	if err != nil {
		return nil, err
	}
	l := p.looking(r, c)
	for i := range seen {
		if h := &seen[i]; h.ID == q.Get("id") && h.Mode.String() == q.Get("mode") && h.err == nil {
			v := l.view()
			row := l.row(h, v.Now)
			v.Hold = &row
			return v, nil
		}
	}
	return nil, errEnded
}

// askBreak asks whether the hold is to be broken.
func (p *page) askBreak(w http.ResponseWriter, r *http.Request, c *caller) {
	v, err := p.holdOf(r, c)
	if err != nil {
		p.fail(w, err)
		return
	}
	p.render(w, http.StatusOK, "break", v)
}

// breakHold breaks the hold, or frees its key at once.
func (p *page) breakHold(w http.ResponseWriter, r *http.Request, c *caller) {
	how := r.PostFormValue("how")
	v, err := p.holdOf(r, c)
	if err == nil && how != "break" && (how != "free" || r.PostFormValue("dead") == "") {
		err = errUnsure
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), callTime)
		defer cancel()
		_, err = p.s.breakHold(ctx, c, &breakRequest{Key: v.Key, ID: v.Hold.ID, Mode: v.Hold.Mode, Now: how == "free"})
	}
	if err != nil {
		p.fail(w, err)
		return
	}
	p.s.log.Warn("page: a hold was broken", "caller", c.name, "key", v.Key, "id", v.Hold.ID, "how", how)
	http.Redirect(w, r, "/page/key?"+p.afterwards(how, v.Key).Encode(), http.StatusSeeOther)
}

// limitOf is the limit that a request is about, as the page has shown it.
func (p *page) limitOf(r *http.Request, c *caller) (*view, *counted, error) {
	q := r.URL.Query()
	if err := p.actsOn(c, q.Get("key")); err != nil {
		return nil, nil, err
	}
	seen, _ := p.sampler.now()
	for i := range seen.limits.list {
		l := &seen.limits.list[i]
		if l.key == q.Get("key") && l.limit.String() == q.Get("limit") {
			v := p.looking(r, c).view()
			row := newLimitRow(l)
			v.Limit = &row
			return v, &l.counted, nil
		}
	}
	return nil, nil, errNoLimit
}

// askReset asks whether the limit is to be reset.
func (p *page) askReset(w http.ResponseWriter, r *http.Request, c *caller) {
	v, _, err := p.limitOf(r, c)
	if err != nil {
		p.fail(w, err)
		return
	}
	p.render(w, http.StatusOK, "reset", v)
}

// reset forgets what was taken.
func (p *page) reset(w http.ResponseWriter, r *http.Request, c *caller) {
	_, a, err := p.limitOf(r, c)
	if err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), callTime)
		defer cancel()
		err = p.s.client.Reset(ctx, a.key, a.limit)
	}
	if err != nil {
		p.fail(w, err)
		return
	}
	p.s.log.Warn("page: a limit was reset", "caller", c.name, "key", a.key, "limit", a.limit.String())
	http.Redirect(w, r, "/?"+p.afterwards("reset", "").Encode(), http.StatusSeeOther)
}
