package server

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// sessions are of people who have signed in with the token of a caller. Their browser keeps an id of chance, which is
// good for the page alone, and for this process.
type sessions struct {
	mu   sync.Mutex
	list []session // the oldest first
}

type session struct {
	sum  [sha256.Size]byte // of the id
	c    *caller
	ends time.Time
}

// The bounds of sessions. One more ends the oldest of its caller.
const (
	sessionTime = 12 * time.Hour
	maxSessions = 20 // of one caller
)

// open makes a session for c under an id.
func (ss *sessions) open(c *caller, id string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	now, own := time.Now(), 0
	ss.list = slices.DeleteFunc(ss.list, func(s session) bool { return now.After(s.ends) })
	isOwn := func(s session) bool { return s.c == c }
	for _, s := range ss.list {
		if isOwn(s) {
			own++
		}
	}
	if own >= maxSessions {
		oldest := slices.IndexFunc(ss.list, isOwn)
		ss.list = slices.Delete(ss.list, oldest, oldest+1)
	}
	ss.list = append(ss.list, session{sha256.Sum256([]byte(id)), c, now.Add(sessionTime)})
}

// of is who has signed in at the browser of r; nil is nobody.
func (ss *sessions) of(r *http.Request, cookie string) *caller {
	given, err := r.Cookie(cookie)
	if err != nil {
		return nil
	}
	sum := sha256.Sum256([]byte(given.Value))
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.list {
		if s.sum == sum && time.Now().Before(s.ends) {
			return s.c
		}
	}
	return nil
}

// end ends the session of the browser of r.
func (ss *sessions) end(r *http.Request, cookie string) {
	given, err := r.Cookie(cookie)
	if err != nil {
		return
	}
	sum := sha256.Sum256([]byte(given.Value))
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.list = slices.DeleteFunc(ss.list, func(s session) bool { return s.sum == sum })
}

// cookie is the name of the cookie. With TLS no other site can set one of that name.
func (p *page) cookie() string {
	if p.s.secure != nil {
		return "__Host-coord"
	}
	return "coord"
}

func (p *page) setCookie(w http.ResponseWriter, id string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: p.cookie(), Value: id, Path: "/", MaxAge: age, HttpOnly: true, Secure: p.s.secure != nil, SameSite: http.SameSiteStrictMode,
	})
}

// signIn makes a session for who knows the token of a caller.
func (p *page) signIn(w http.ResponseWriter, r *http.Request) {
	here := local(r.PostFormValue("here"))
	c := p.s.callers.withToken(r.PostFormValue("token"))
	if c == nil {
		p.render(w, http.StatusUnauthorized, "sign-in", &view{Here: here, Failed: "No caller of this server has this token."})
		return
	}
	id := p.s.newID()
	p.sessions.open(c, id)
	p.setCookie(w, id, 0)
	p.s.log.Info("page: somebody has signed in", "caller", c.name)
	http.Redirect(w, r, here, http.StatusSeeOther)
}

func (p *page) signOut(w http.ResponseWriter, r *http.Request) {
	p.sessions.end(r, p.cookie())
	p.setCookie(w, "", -1)
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
