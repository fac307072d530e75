package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/coordgo/coord/config"
)

// page is what a person sees at "/". The server makes all of it from templates. The script of the page only puts newer
// parts in the place of older ones, and counts leases down.
type page struct {
	s        *Server
	sampler  *sampler
	gallery  gallery
	sessions sessions
	began    time.Time
	secret   string // of the proofs that something was done
}

//go:embed page
var pageFiles embed.FS

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"pieces": pieces, "plain": plain, "span": span, "rate": rate,
}).ParseFS(pageFiles, "page/*.html"))

// pageAssets are what the page refers to, with their sum, so that a browser may keep them.
var pageAssets = []string{"page.css", "page.js", "icon.svg"}

var assetsSum = func() string {
	sum := sha256.New()
	for _, name := range pageAssets {
		text, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}()

// pageOpen are the routes that need no token as others do: the page asks who it is, and has a form to sign in.
var pageOpen = []string{
	"GET /{$}", "GET /page/key", "GET /page/events", "GET /page/break", "POST /page/break", "GET /page/reset", "POST /page/reset",
	"POST /page/sign-in", "POST /page/sign-out", "GET /page/page.css", "GET /page/page.js", "GET /page/icon.svg",
}

// servePage makes the paths of the page, if there is to be one.
func (s *Server) servePage(d *Decisions) {
	if s.cfg.Page == config.PageNone {
		return
	}
	p := &page{s: s, sampler: newSampler(s, d), began: time.Now(), secret: s.newID()}
	for _, name := range pageAssets {
		s.mux.HandleFunc("GET /page/"+name, func(w http.ResponseWriter, r *http.Request) {
			protect(w)
			if r.URL.RawQuery == assetsSum { // else it is what another version of the page has asked for
				w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			}
			http.ServeFileFS(w, r, pageFiles, "page/"+name)
		})
	}
	for path, show := range map[string]func(http.ResponseWriter, *http.Request, *caller){
		"GET /{$}": p.show, "GET /page/key": p.show, "GET /page/events": p.events, "GET /page/break": p.askBreak,
		"POST /page/break": p.breakHold, "GET /page/reset": p.askReset, "POST /page/reset": p.reset,
	} {
		s.mux.HandleFunc(path, p.known(show))
	}
	s.mux.HandleFunc("POST /page/sign-in", p.own(p.signIn))
	s.mux.HandleFunc("POST /page/sign-out", p.own(p.signOut))
}

// protect keeps a browser from more than showing an answer: no script, style or picture is from elsewhere or within the
// text, and no other page shows this one.
func protect(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// known is a handler for callers, and a form to sign in for all others.
func (p *page) known(show func(http.ResponseWriter, *http.Request, *caller)) http.HandlerFunc {
	return p.own(func(w http.ResponseWriter, r *http.Request) {
		c, err := p.caller(r)
		if err != nil {
			p.render(w, http.StatusUnauthorized, "sign-in", &view{Here: r.URL.RequestURI()})
			return
		}
		if seen, ok := w.(*recorder); ok {
			seen.caller = c.name
		}
		of := &c.requests
		if r.URL.Path == "/page/events" { // who looks keeps no program from its locks
			of = &c.pages
		}
		err = p.s.enter(of)
		defer of.Add(-1)
		if err != nil {
			p.fail(w, err)
			return
		}
		if key := r.URL.Query().Get("key"); key != "" && c.may(config.Read, key) != nil || len(c.reads()) == 0 {
			v := p.looking(r, c).view()
			v.Failed = "You may not read this."
			p.render(w, http.StatusForbidden, "failed", v)
			return
		}
		show(w, r, c)
	})
}

// own is a handler for what a browser asks because of the page, and not because of another site.
func (p *page) own(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		protect(w)
		if p.s.secure != nil { // without, browsers only complain of it
			w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		}
		if isLink(r) { // the cookie does not come with it: it does when this page asks for itself
			p.render(w, http.StatusOK, "again", &view{Here: local(r.URL.RequestURI())})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		_, err := p.s.callers.of(r)
		if errors.Is(err, errToken) {
			err = nil // it may have a session, or want one
		}
		if kind := r.Header.Get("Content-Type"); err == nil && r.Method == http.MethodPost && kind != "application/x-www-form-urlencoded" {
			err = &failure{http.StatusUnsupportedMediaType, "media_type", "want a form of this page"}
		}
		if err == nil && r.ParseForm() != nil {
			err = invalid("the form did not come whole")
		}
		unhurried(w)
		if err != nil {
			p.fail(w, err)
			return
		}
		serve(w, r)
	}
}

// caller is who looks: as for other paths, or of a session.
func (p *page) caller(r *http.Request) (*caller, error) {
	c, err := p.s.callers.of(r)
	if errors.Is(err, errToken) {
		if own := p.signed(r); own != nil {
			return own, nil
		}
	}
	return c, err
}

// isLink reports whether somebody follows a link of another site.
func isLink(r *http.Request) bool {
	of := func(name string) string { return r.Header.Get("Sec-Fetch-" + name) }
	return r.Method == http.MethodGet && of("Mode") == "navigate" && of("Dest") == "document" && strings.HasSuffix(of("Site"), "-site")
}

// render answers with a template.
func (p *page) render(w http.ResponseWriter, status int, name string, v *view) {
	text := executed(name, v)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text) // who has gone does not read it
}

func executed(name string, v *view) []byte {
	var text bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&text, name, v); err != nil {
		panic(err) // a mistake of the template
	}
	return text.Bytes()
}

// fail answers with an error for people.
func (p *page) fail(w http.ResponseWriter, err error) {
	status, problem := problemOf(err)
	p.render(w, status, "failed", &view{Failed: problem.Error.Message})
}

// show is the page with all that the caller may read, or with one key.
func (p *page) show(w http.ResponseWriter, r *http.Request, c *caller) {
	l := p.looking(r, c)
	defer l.look()()
	ctx, cancel := context.WithTimeout(r.Context(), answersIn+sampleEvery)
	defer cancel()
	v := l.first(ctx)
	p.render(w, http.StatusOK, "page", v)
}

// limitsEvery is how often limits are sent, for those that are in use are another text each second.
const limitsEvery = 5 * time.Second

// events sends each part of the page that has changed, until the caller leaves or the server ends: the event of a part has
// its HTML. The event "ends" has the ends of leases that have changed, so that a renewal sends no HTML.
func (p *page) events(w http.ResponseWriter, r *http.Request, c *caller) {
	out := newStream(w)
	if r.Method == http.MethodHead {
		out.begin()
		return
	}
	reloaded := p.s.callers.reloaded()
	l := p.looking(r, c)
	defer l.look()()
	var limits time.Time // when they were sent
	sent, ends := make(map[string]string), make(map[string]int64)
	for {
		if now, err := p.caller(r); err != nil || now != c { // it has signed out, or is none any more
			return
		}
		d, news := l.draw()
		if changed := d.changedEnds(ends); len(changed) > 0 && out.send("ends", changed) != nil {
			return
		}
		for _, name := range d.parts() {
			if name == "limits" && time.Since(limits) < limitsEvery {
				continue
			}
			html := d.part(name)
			if html != sent[name] && out.sendText(name, html) != nil {
				return
			}
			if sent[name] = html; name == "limits" && !d.Limits.At.IsZero() {
				limits = time.Now()
			}
		}
		select {
		case <-news:
		case <-time.After(2 * beat):
		case <-r.Context().Done():
			return
		case <-reloaded: // who looks comes back, and sees what it may read then
			return
		case <-p.s.ending.Done(): // which was told: who looks comes back
			return
		}
	}
}

// sendText writes an event whose data is a text of several lines.
func (s *stream) sendText(name, text string) error {
	s.begin()
	_, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, strings.ReplaceAll(text, "\n", "\ndata: "))
	return errors.Join(err, s.control.Flush())
}
