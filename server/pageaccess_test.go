package server

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/config"
)

const paged = `
limits: {web: 9/1h, other: 9/1h}
serve:
  page: act
  callers:
    - {name: web, token: "web-web-web-web-web", allow: [{prefix: web, rights: [take, lock, read]}]}
    - {name: all, token: "all-all-all-all-all", allow: [{rights: [read, take, lock, break]}]}
    - {name: blind, token: "blind-blind-blind", allow: [{rights: [lock, break]}]}
`

// signIn gives what makes a request one of a session.
func (k *kit) signIn(token string) func(*http.Request) {
	k.t.Helper()
	w := k.visit(http.MethodPost, "/page/sign-in", url.Values{"token": {token}, "here": {"/?q=a"}})
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/?q=a" {
		k.t.Fatalf("signing in: %d, %v", w.Code, w.Header())
	}
	cookie := w.Result().Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || strings.Contains(cookie.Value, token) || len(cookie.Value) < 32 {
		k.t.Errorf("cookie %v", cookie)
	}
	return func(r *http.Request) { r.AddCookie(cookie) }
}

// Who has signed in sees what the caller may read, until it signs out or the session is over.
func TestPageSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, paged)
		web, all := bearer("web-web-web-web-web"), bearer("all-all-all-all-all")
		k.post(acquirePath, `{"key":"web/1","ttl_ms":80000000}`, web).ok(t)
		k.post(acquirePath, `{"key":"secret/1","ttl_ms":80000000}`, all).ok(t)
		for what, got := range map[string]*httptest.ResponseRecorder{
			"nobody":         k.visit(http.MethodGet, "/", nil),
			"another cookie": k.visit(http.MethodGet, "/page/events", nil, with("Cookie", "coord=a")),
			"a wrong token":  k.visit(http.MethodPost, "/page/sign-in", url.Values{"token": {"web"}}),
			"no token":       k.visit(http.MethodPost, "/page/sign-in", nil),
		} {
			if got.Code != http.StatusUnauthorized || !strings.Contains(got.Body.String(), "<h1>Sign in</h1>") || len(got.Result().Cookies()) > 0 {
				t.Errorf("%s: %d %s", what, got.Code, got.Body)
			}
		}
		for _, who := range []func(*http.Request){k.signIn("web-web-web-web-web"), web} {
			page := k.page("/", who)
			has(t, page, true, "web/1", ">web<", "<dt>Holds</dt><dd>1</dd>")
			has(t, page, false, "secret/1", ">other<", "/page/reset")
			if w := k.visit(http.MethodGet, "/page/key?key=secret/1", nil, who); w.Code != http.StatusForbidden {
				t.Errorf("a key that is not to be read: %d %s", w.Code, w.Body)
			}
		}
		session := k.signIn("all-all-all-all-all")
		has(t, k.page("/", session), true, "web/1", "secret/1", ">other<", "Sign out", "/page/reset?key=web")
		if a := k.post(acquirePath, `{"key":"web/2"}`, session); a.code() != "unauthenticated" {
			t.Errorf("a session is good for more than the page: %v", a.body)
		}
		if w := k.visit(http.MethodPost, "/page/sign-out", nil, session); w.Code != http.StatusSeeOther || w.Result().Cookies()[0].MaxAge >= 0 {
			t.Errorf("signing out: %d %v", w.Code, w.Header())
		}
		if w := k.visit(http.MethodGet, "/", nil, session); w.Code != http.StatusUnauthorized {
			t.Errorf("after signing out: %d", w.Code)
		}
		first := k.signIn("all-all-all-all-all")
		for range maxSessions - 1 {
			time.Sleep(time.Second)
			session = k.signIn("all-all-all-all-all")
		}
		_ = k.page("/", first)
		last := k.signIn("all-all-all-all-all")
		for what, tc := range map[string]struct {
			who  func(*http.Request)
			code int
		}{"the oldest of too many": {first, 401}, "one before": {session, 200}, "the last": {last, 200}} {
			if w := k.visit(http.MethodGet, "/", nil, tc.who); w.Code != tc.code {
				t.Errorf("%s: %d", what, w.Code)
			}
		}
		time.Sleep(sessionTime)
		if w := k.visit(http.MethodGet, "/", nil, last); w.Code != http.StatusUnauthorized {
			t.Errorf("after %v: %d", sessionTime, w.Code)
		}
	})
}

// Who may read a part is told nothing of the others, and who may read nothing is told that.
func TestPageOfPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: 'odd://?checks=0s'"+paged)
		k.post(acquirePath, `{"key":"secret/1"}`, bearer("all-all-all-all-all")).ok(t)
		all, web, blind := k.signIn("all-all-all-all-all"), k.signIn("web-web-web-web-web"), k.signIn("blind-blind-blind")
		_ = k.page("/", all)
		time.Sleep(3 * time.Second)
		has(t, k.page("/", all), true, "1 holds", "enough")
		has(t, k.page("/", web), false, "1 holds", "enough", "doctor")
		for _, path := range []string{"/", "/page/events", "/page/key?key=secret/1"} {
			w := k.visit(http.MethodGet, path, nil, blind)
			has(t, w.Body.String(), true, "You may not read this.", "Sign out")
			if has(t, w.Body.String(), false, "Lease left", "1 holds"); w.Code != http.StatusForbidden {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_ = k.Drain(ctx)
		has(t, k.page("/", web), true, "waits for the end of its holds")
	})
}

// reloading is a server whose only caller may read the keys that begin so, and reload gives it another token or other keys.
func reloading(t *testing.T, token, prefix string) (k *kit, reload func(token, prefix string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "coord.yaml")
	write := func(token, prefix string) {
		t.Helper()
		text := fmt.Sprintf("url: memory://\nserve: {callers: [{name: web, token: %s, allow: [{prefix: '%s', rights: [read]}]}]}\n", token, prefix)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token, prefix)
	client, err := config.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	k = startOn(t, client, nil)
	return k, func(token, prefix string) {
		t.Helper()
		write(token, prefix)
		if err := errors.Join(client.Reload(t.Context()), k.Reload(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

// stream is what a stream of the page sends, once it has ended.
func (k *kit) stream(who func(*http.Request)) <-chan string {
	sent := make(chan string, 1)
	go func() { sent <- k.visit(http.MethodGet, "/page/events", nil, who).Body.String() }()
	synctest.Wait()
	return sent
}

// A session ends with the token that it began with, and so do its streams, at once.
func TestPageReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, reload := reloading(t, "before-before-before", "")
		session := k.signIn("before-before-before")
		sent := k.stream(session)
		reload("after-after-after-after", "")
		began := time.Now()
		<-sent
		if took := time.Since(began); took > 0 {
			t.Errorf("the stream has ended %v later", took)
		}
		if w := k.visit(http.MethodGet, "/", nil, session); w.Code != http.StatusUnauthorized {
			t.Errorf("with the token of before: %d", w.Code)
		}
		_ = k.page("/", k.signIn("after-after-after-after"))
	})
}

// Rights that are taken away are so at once, also for what was drawn before.
func TestPageReloadRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const token = "web-web-web-web-web"
		k, reload := reloading(t, token, "")
		k.hold("secret/1")
		session := k.signIn(token)
		first := k.stream(session)
		time.Sleep(2500 * time.Millisecond)
		reload(token, "web")
		second := k.stream(session)
		reload(token, "web")
		has(t, <-first, true, "secret/1")
		sent := <-second
		has(t, sent, true, "event: locks")
		has(t, sent, false, "secret/1")
	})
}

// With TLS a certificate is enough to see the page, and no other site can set its cookie.
func TestPageTLS(t *testing.T) {
	ours := newAuthority(t)
	ours.sign("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	ours.sign("web.example", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	k := start(t, fmt.Sprintf(`
serve:
  listen: '127.0.0.1:0'
  tls: {certificate: %q, key: %q, client_ca: %q}
  callers:
    - {name: web, certificate: web.example, allow: [{prefix: web, rights: [read]}]}
    - {name: ops, token: "0123456789abcdef", allow: [{rights: [read]}]}
`, ours.path("server.crt"), ours.path("server.key"), ours.path("authority.crt")))
	addr, end := k.serve()
	got, err := ours.client("web.example").Get("https://" + addr.String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	page, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	has(t, string(page), true, ">web<", ">Live<")
	has(t, string(page), false, "Sign out")
	if policy := got.Header.Get("Cross-Origin-Opener-Policy"); policy != "same-origin" {
		t.Errorf("Cross-Origin-Opener-Policy: %q", policy)
	}
	c := ours.client("")
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	got, err = c.PostForm("https://"+addr.String()+"/page/sign-in", url.Values{"token": {"0123456789abcdef"}})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if cookies := got.Cookies(); len(cookies) != 1 || !strings.HasPrefix(cookies[0].Name, "__Host-coord-") || !cookies[0].Secure || cookies[0].Path != "/" {
		t.Errorf("cookies %v", cookies)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// Behind a proxy with TLS the cookie goes by TLS alone.
func TestPageProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, paged)
		https := with("Origin", "https://localhost")
		w := k.visit(http.MethodPost, "/page/sign-in", url.Values{"token": {"all-all-all-all-all"}}, https)
		cookies := w.Result().Cookies()
		if len(cookies) != 1 || cookies[0].Name != "__Host-coord" || !cookies[0].Secure || cookies[0].Path != "/" {
			t.Fatalf("cookies %v", cookies)
		}
		session := func(r *http.Request) { r.AddCookie(cookies[0]) }
		has(t, k.page("/", session), true, "Sign out")
		w = k.visit(http.MethodPost, "/page/sign-out", nil, session, https)
		if ended := w.Result().Cookies(); len(ended) != 1 || ended[0].Name != "__Host-coord" || ended[0].MaxAge >= 0 || !ended[0].Secure {
			t.Errorf("after signing out: %v", ended)
		}
		if w := k.visit(http.MethodGet, "/", nil, session); w.Code != http.StatusUnauthorized {
			t.Errorf("after signing out: %d", w.Code)
		}
	})
}

// Where somebody goes on after signing in is nowhere else than here.
func TestPageLocal(t *testing.T) {
	for here, want := range map[string]string{
		"/": "/", "/?q=a": "/?q=a", "/page/key?key=%ff": "/page/key?key=%ff", "": "/", "https://evil.example/": "/", "//evil.example/": "/",
		"/page/break?key=a": "/", `/\evil.example`: "/", "javascript:alert(1)": "/", "%": "/",
	} {
		if got := local(here); got != want {
			t.Errorf("%q: %q, want %q", here, got, want)
		}
	}
}

// Another site makes the page do nothing, and sees nothing of it. Its links lead to the page.
func TestPageOfOtherSites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, paged)
		k.post(acquirePath, `{"key":"held"}`, bearer("all-all-all-all-all")).ok(t)
		session := k.signIn("all-all-all-all-all")
		cross := with("Sec-Fetch-Site", "cross-site")
		for path, method := range map[string]string{
			"/": http.MethodGet, "/page/events": http.MethodGet, "/page/break?key=held&id=x&mode=exclusive": http.MethodPost,
			"/page/reset?key=web&limit=9/1h": http.MethodPost, "/page/sign-in": http.MethodPost, "/page/sign-out": http.MethodPost,
		} {
			if w := k.visit(method, path, url.Values{"token": {"all-all-all-all-all"}}, session, cross); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "held") {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
		w := k.visit(http.MethodGet, "/page/key?key=held", nil, cross, with("Sec-Fetch-Mode", "navigate"), with("Sec-Fetch-Dest", "document"))
		if w.Code != http.StatusOK {
			t.Errorf("a link: %d", w.Code)
		}
		has(t, w.Body.String(), true, `<meta http-equiv="refresh" content="0">`, `href="/page/key?key=held"`)
		has(t, w.Body.String(), false, "Lease left")
		if w := k.visit(http.MethodGet, "/", nil, func(r *http.Request) { r.Host = "evil.example" }); w.Code != http.StatusUnauthorized {
			t.Errorf("with callers, any name will do: %d", w.Code)
		}
		if w := start(t, "").visit(http.MethodGet, "/", nil, func(r *http.Request) { r.Host = "evil.example" }); w.Code != http.StatusForbidden {
			t.Errorf("without callers, another name: %d", w.Code)
		}
	})
}

// breakPath is the path of the page that asks whether to break the only hold of a key.
func (k *kit) breakPath(key string, who func(*http.Request)) string {
	k.t.Helper()
	_, rest, ok := strings.Cut(k.page("/page/key?key="+key, who), `href="/page/break?`)
	if !ok {
		k.t.Fatalf("nothing to break on the page of %s", key)
	}
	path, _, _ := strings.Cut(rest, `"`)
	return "/page/break?" + strings.ReplaceAll(path, "&amp;", "&")
}

// how is what a form says about a hold.
func how(what string) url.Values { return url.Values{"how": {what}} }

// The page asks, and then breaks a hold, frees a key or resets a limit, for those who may.
func TestPageActs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, paged)
		all, web := k.signIn("all-all-all-all-all"), k.signIn("web-web-web-web-web")
		held := k.post(acquirePath, `{"key":"web1"}`, bearer("web-web-web-web-web")).ok(t)
		path := k.breakPath("web1", all)
		has(t, k.page(path, all), true, "Break this hold?", "web1", "in at most 30 s")
		for what, w := range map[string]*httptest.ResponseRecorder{
			"who may not asks":    k.visit(http.MethodGet, path, nil, web),
			"who may not":         k.visit(http.MethodPost, path, how("break"), web),
			"now, not knowing":    k.visit(http.MethodPost, path, how("free"), all),
			"no choice":           k.visit(http.MethodPost, path, nil, all),
			"another choice":      k.visit(http.MethodPost, path, url.Values{"how": {"burn"}}, all),
			"another form":        k.visit(http.MethodPost, path, how("break"), all, with("Content-Type", "multipart/form-data")),
			"half a form":         k.visit(http.MethodPost, path, how("break"), all, func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("how=break&a=%zz")) }),
			"a form without end":  k.visit(http.MethodPost, path, url.Values{"how": {"break"}, "a": {strings.Repeat("a", maxBody)}}, all),
			"another hold":        k.visit(http.MethodPost, "/page/break?key=web1&id=x&mode=exclusive", how("break"), all),
			"another mode":        k.visit(http.MethodPost, strings.Replace(path, "exclusive", "read", 1), how("break"), all),
			"a limit, may not":    k.visit(http.MethodPost, "/page/reset?key=web&limit=9%2F1h", nil, web),
			"a limit, not there":  k.visit(http.MethodPost, "/page/reset?key=web&limit=8%2F1h", nil, all),
			"a limit, asks for 2": k.visit(http.MethodGet, "/page/reset?key=web2&limit=9%2F1h", nil, all),
		} {
			if w.Code < 400 || w.Code >= 500 {
				t.Errorf("%s: %d %s", what, w.Code, w.Body)
			}
		}
		k.post(renewPath, id(held), bearer("web-web-web-web-web")).ok(t)
		w := k.visit(http.MethodPost, path, how("break"), all)
		if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || !strings.HasPrefix(to, "/page/key?done=break&key=web1&proof=") {
			t.Fatalf("breaking: %d %s %s", w.Code, to, w.Body)
		}
		done := w.Header().Get("Location")
		has(t, k.page(done, all), true, "The hold is broken.", "kept taken")
		for _, path := range []string{"/page/key?done=break&key=web1", strings.Replace(done, "web1", "web2", 1), strings.Replace(done, "break", "free", 1)} {
			has(t, k.page(path, all), false, "The hold is broken.", "The key was freed.")
		}
		w = k.visit(http.MethodPost, path, url.Values{"how": {"free"}, "dead": {"1"}}, all)
		has(t, k.page(w.Header().Get("Location"), all), true, "The key was freed.", "Nobody holds this key.")

		k.post("/v1/limits/take", `{"key":"web","n":7}`, bearer("all-all-all-all-all")).ok(t)
		time.Sleep(2 * time.Second)
		has(t, k.page("/", all), true, "2 of 9")
		const reset = "/page/reset?key=web&limit=9%2F1h"
		has(t, k.page(reset, all), true, "Reset this limit?")
		w = k.visit(http.MethodPost, reset, nil, all)
		has(t, k.page(w.Header().Get("Location"), all), true, "The limit was reset", "9 of 9")
	})
}

// A page that only shows does nothing for anybody, and none is none.
func TestPageOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, strings.Replace(paged, "page: act", "page: read", 1))
		all := k.signIn("all-all-all-all-all")
		k.post(acquirePath, `{"key":"web1"}`, bearer("all-all-all-all-all")).ok(t)
		has(t, k.page("/page/key?key=web1", all), false, "/page/break")
		has(t, k.page("/", all), false, "/page/reset")
		for _, path := range []string{"/page/break?key=web1&id=x&mode=exclusive", "/page/reset?key=web&limit=9%2F1h"} {
			if w := k.visit(http.MethodPost, path, nil, all); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "serve.page: act") {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		none := start(t, "serve: {page: none}")
		for _, path := range []string{"/", "/page/events", "/page/page.js"} {
			if w := none.visit(http.MethodGet, path, nil); w.Code != http.StatusNotFound {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
	})
}
