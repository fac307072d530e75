package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// sessions are of people who have signed in with the token of a caller. Their browser keeps an id of chance, which is
// good for the page alone, for this process, and for as long as the caller has that token.
type sessions struct {
	mu   sync.Mutex
	list []session // the oldest first
}

type session struct {
	id, token sum
	ends      time.Time
}

// The bounds of sessions. One more ends the oldest of its token.
const (
	sessionTime = 12 * time.Hour
	maxSessions = 20
)

// open makes a session for a token.
func (ss *sessions) open(id, token string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	now, own := session{sumOf(id), sumOf(token), time.Now().Add(sessionTime)}, 0
	ss.list = slices.DeleteFunc(ss.list, func(s session) bool { return s.over() })
	isOwn := func(s session) bool { return s.token == now.token }
	for _, s := range ss.list {
		if isOwn(s) {
			own++
		}
	}
	if own >= maxSessions {
		oldest := slices.IndexFunc(ss.list, isOwn)
		ss.list = slices.Delete(ss.list, oldest, oldest+1)
	}
	ss.list = append(ss.list, now)
}

func (s session) over() bool { return !time.Now().Before(s.ends) }

// signed is who has signed in at the browser of r; nil is nobody.
func (p *page) signed(r *http.Request) *caller {
	id := sumOf(p.given(r))
	p.sessions.mu.Lock()
	defer p.sessions.mu.Unlock()
	for _, s := range p.sessions.list {
		if s.id == id && !s.over() {
			return p.s.callers.withSum(s.token)
		}
	}
	return nil
}

// end ends the session of the browser of r.
func (p *page) end(r *http.Request) {
	id := sumOf(p.given(r))
	p.sessions.mu.Lock()
	defer p.sessions.mu.Unlock()
	p.sessions.list = slices.DeleteFunc(p.sessions.list, func(s session) bool { return s.id == id })
}

// cookie is the name of the cookie. It has the port, because a browser has the same cookies for all ports of a host. With
// TLS no other site can set one of that name.
func cookie(r *http.Request, secure bool) string {
	name := "coord"
	if secure {
		name = "__Host-coord"
	}
	if port := (&url.URL{Host: r.Host}).Port(); port != "" {
		name += "-" + port
	}
	return name
}

// given is the id of the session of the browser of r; "" is none. What came by TLS goes before.
func (p *page) given(r *http.Request) string {
	c, err := r.Cookie(cookie(r, true))
	if err != nil && p.s.secure == nil {
		c, err = r.Cookie(cookie(r, false))
	}
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie answers a form. Its origin shows TLS that ends at a proxy.
func (p *page) setCookie(w http.ResponseWriter, r *http.Request, id string, age int) {
	secure := p.s.secure != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://")
	http.SetCookie(w, &http.Cookie{
		Name: cookie(r, secure), Value: id, Path: "/", MaxAge: age, HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	})
}

// signIn makes a session for who knows the token of a caller.
func (p *page) signIn(w http.ResponseWriter, r *http.Request) {
	here := local(r.PostFormValue("here"))
	token := r.PostFormValue("token")
	c := p.s.callers.withToken(token)
	if c == nil {
		p.render(w, http.StatusUnauthorized, "sign-in", &view{Here: here, Failed: "No caller of this server has this token."})
		return
	}
	p.end(r) // of who has signed in there before
	id := p.s.newID()
	p.sessions.open(id, token)
	p.setCookie(w, r, id, 0)
	p.s.log.Info("page: somebody has signed in", "caller", c.name)
	http.Redirect(w, r, here, http.StatusSeeOther)
}

func (p *page) signOut(w http.ResponseWriter, r *http.Request) {
	p.end(r)
	p.setCookie(w, r, "", -1)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// local is where to go on after signing in, which is nowhere but on the page.
func local(here string) string {
	u, err := url.Parse(here)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Path != "/" && u.Path != "/page/key" {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String()
}
