package server

import (
	"sync"
	"time"

	"github.com/coordgo/coord/config"
)

// drawn is a view with its parts as HTML. All who look at the same share it.
type drawn struct {
	*view
	html map[string]string
}

// gallery has what was drawn since the store has told something new. One view is drawn at a time, so that those who look
// take no more than one processor.
type gallery struct {
	mu   sync.Mutex
	news <-chan struct{} // closed when all that is here is old
	of   map[looks]*drawn
}

// looks is what a view depends on.
type looks struct {
	c                *caller
	rights           *[]config.Allow
	filter, key      string
	signed, draining bool
}

// draw is what l sees now, and a channel that is closed when there is more.
func (l *looking) draw() (*drawn, <-chan struct{}) {
	seen, news := l.p.sampler.now()
	l.narrow(&seen)
	g, same := &l.p.gallery, looks{l.c, l.c.allow.Load(), l.filter, l.key, l.signed, l.p.s.draining.Load()}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.news != news {
		g.news, g.of = news, make(map[looks]*drawn)
	}
	d := g.of[same]
	if d == nil {
		d = &drawn{view: l.see(&seen), html: make(map[string]string)}
		d.Live = true
		for _, part := range d.parts() {
			d.html[part] = string(executed(part, d.view))
		}
		g.of[same] = d
	}
	return d, news
}

// part is the HTML of one. The state has the time of now.
func (d *drawn) part(name string) string {
	if name != "state" {
		return d.html[name]
	}
	now := *d.view
	now.Now = time.Now()
	return string(executed(name, &now))
}
