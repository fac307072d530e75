package server

import (
	"cmp"
	"context"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
)

// looking is somebody who looks at the page.
type looking struct {
	p      *page
	c      *caller
	filter string // what keys and holders contain
	key    string // the only one to show; "" is all
	done   string // what was just done; "" is nothing
	signed bool   // in by a session
	wanted []sight
	leaves []func()
}

func (p *page) looking(r *http.Request, c *caller) *looking {
	q := r.URL.Query()
	l := &looking{p: p, c: c, filter: q.Get("q"), key: q.Get("key"), done: p.doneBy(q)}
	l.filter = l.filter[:min(len(l.filter), coord.MaxKey)]
	l.signed = p.signed(r) == c
	return l
}

// look makes the sampler ask the store until leave is called.
func (l *looking) look() (leave func()) {
	if l.key != "" {
		l.want(sight{l.key, true})
	} else {
		for _, prefix := range l.c.reads() {
			l.want(sight{text: prefix})
		}
	}
	return func() {
		for _, leave := range l.leaves {
			leave()
		}
	}
}

// want makes the sampler ask for that.
func (l *looking) want(s sight) {
	l.wanted = append(l.wanted, s)
	l.leaves = append(l.leaves, l.p.sampler.look(s))
}

// narrow lists the keys that begin with the filter by themselves, if there are too many of all, or the store lists none.
func (l *looking) narrow(seen *scene) {
	begin := sight{text: l.filter}
	if l.key != "" || l.filter == "" || slices.Contains(l.wanted, begin) || l.c.may(config.Read, l.filter) != nil {
		return
	}
	for _, s := range l.wanted {
		if all := seen.locks[s]; all.more || all.ours {
			l.want(begin)
			return
		}
	}
}

// first is what to show to begin with. It waits for the store, until ctx ends. A single key is asked for at once, and
// not when its turn comes among all that others look at.
func (l *looking) first(ctx context.Context) *view {
	seen, _ := l.p.sampler.now()
	if l.key != "" {
		only := l.wanted[0]
		now := l.p.sampler.locks(ctx, only, true)
		seen.ping(now.err)
		seen.locks = map[sight]locksSeen{only: now.after(seen.locks[only])}
		return l.see(&seen)
	}
	for i := 0; i < len(l.wanted); i++ {
		seen = l.p.sampler.await(ctx, l.wanted[i], l.done != "")
		l.narrow(&seen)
	}
	return l.see(&seen)
}

// see is what is to be seen of what the store has told.
func (l *looking) see(seen *scene) *view {
	v := l.view()
	var all locksSeen
	for _, s := range l.wanted {
		all = all.with(seen.locks[s])
	}
	v.locks(l, all)
	v.limits(l, seen)
	v.store(l.p, seen)
	v.state(seen)
	return v
}

func (l *looking) view() *view {
	return &view{
		Filter: l.filter, Key: l.key, Done: l.done, Caller: l.c.name, Signed: l.signed, Now: time.Now(),
		Draining: l.p.s.draining.Load(), All: l.c.may(config.Read, "") == nil,
	}
}

// view is what one template or another shows.
type view struct {
	Here         string // where to go on after signing in
	Failed, Done string // what came of a request

	Filter, Key string
	Caller      string
	Signed      bool
	Live        bool // the event "ends" tells when leases end
	Draining    bool
	All         bool // the caller may read every key, and so be told of the store
	Now         time.Time
	State       stateView
	Locks       locksView
	Limits      limitsView
	Store       storeView
	Hold        *lockRow  // to break
	Limit       *limitRow // to reset
}

// Asset is the path of a file of the page.
func (v *view) Asset(name string) string { return "/page/" + name + "?" + assetsSum }

// parts are the templates that show what changes, and the ids of their elements.
func (v *view) parts() []string {
	if v.Key != "" {
		return []string{"state", "trouble", "holds"}
	}
	return []string{"state", "trouble", "tiles", "locks", "limits", "store"}
}

// With is a row with what its template has to know of the view.
func (v *view) With(r lockRow) any {
	return struct {
		Live bool
		Row  lockRow
	}{v.Live, r}
}

// stateView says how far to believe the page.
type stateView struct {
	Class, Word, Text string
	Since, At         time.Time
}

func (v *view) state(seen *scene) {
	v.State.At = v.Locks.At
	switch {
	case seen.pinged.IsZero():
		v.State.Class, v.State.Word = "warn", "Asking the store"
	case seen.pingErr != nil:
		v.State.Class, v.State.Word, v.State.Since, v.State.Text = "fail", "No answer", seen.failing, seen.pingErr.Error()
	case v.Draining:
		v.State.Class, v.State.Word = "warn", "Draining"
	default:
		v.State.Class, v.State.Word = "ok", "Live"
	}
}

type storeView struct {
	Name, Server, Version string
	Up                    time.Duration
	Held                  int
	Checked               time.Time // zero: not known yet
	Findings              []driver.Finding
	OK, Skip, Warn, Fail  int
	Problem               string
}

func (v *view) store(p *page, seen *scene) {
	info := p.s.client.Info()
	p.s.mu.Lock()
	held := p.s.live
	p.s.mu.Unlock()
	v.Store = storeView{
		Name: info.Name, Server: info.Server, Version: version, Up: v.Now.Sub(p.began).Truncate(time.Minute), Held: held,
	}
	if !v.All {
		return
	}
	v.Store.Checked, v.Store.Findings = seen.checked, slices.Clone(seen.findings)
	if seen.checkErr != nil {
		v.Store.Problem = seen.checkErr.Error()
	}
	count := map[driver.Level]*int{
		driver.LevelFail: &v.Store.Fail, driver.LevelWarn: &v.Store.Warn, driver.LevelSkip: &v.Store.Skip, driver.LevelOK: &v.Store.OK,
	}
	worst := []driver.Level{driver.LevelFail, driver.LevelWarn, driver.LevelSkip, driver.LevelOK}
	slices.SortStableFunc(v.Store.Findings, func(a, b driver.Finding) int {
		return cmp.Compare(slices.Index(worst, a.Level), slices.Index(worst, b.Level))
	})
	for _, f := range v.Store.Findings {
		if n := count[f.Level]; n != nil {
			*n++
		}
	}
}

// version is that of this module, or of the program that is built with it.
var version = func() string {
	const module = "github.com/coordgo/coord/server"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == module && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return cmp.Or(info.Main.Version, "unknown")
}()
