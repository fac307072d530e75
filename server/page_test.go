package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
)

// visit makes a request as a browser does.
func (k *kit) visit(method, path string, form url.Values, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	k.t.Helper()
	r := httptest.NewRequestWithContext(k.t.Context(), method, path, strings.NewReader(form.Encode()))
	r.Host = "localhost"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	k.ServeHTTP(w, r)
	return w
}

// page is the body of what is at path.
func (k *kit) page(path string, edit ...func(*http.Request)) string {
	k.t.Helper()
	w := k.visit(http.MethodGet, path, nil, edit...)
	if w.Code != http.StatusOK {
		k.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// has checks which texts are on a page.
func has(t *testing.T, page string, want bool, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(page, text) != want {
			t.Errorf("%q on the page: %v; it is\n%s", text, !want, page)
		}
	}
}

// The page shows what is held, in each way, and what is left of limits.
func TestPageShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "limits: {supplier: 4/1h, mail: 9/1s}")
		a := k.post(acquirePath, `{"key":"orders/7","name":"web-3"}`).ok(t)
		k.post(acquirePath, `{"key":"map","mode":"read","name":"reader"}`).ok(t)
		k.post(acquirePath, `{"key":"pool","mode":"permits","permits":5,"weight":2}`).ok(t)
		k.post("/v1/limits/take", `{"key":"supplier","n":4}`).ok(t)
		k.post("/v1/limits/take", `{"key":"supplier"}`).ok(t)
		all := k.page("/")
		has(t, all, true, "orders/7", "web-3", a.text("token"), "30 s", "reader", "2 of 5 permits", "0 of 4", "used up", "9 of 9",
			"<dt>Holds</dt><dd>3</dd>", "<dt>Limits nearly used up</dt><dd>1</dd>", "<dt>Denied a second</dt><dd>0.1</dd>", ">Live<")
		has(t, all, false, "/page/break", "/page/reset", "Sign out")
		if strings.Index(all, ">supplier<") > strings.Index(all, ">mail<") {
			t.Error("the fullest limit does not come first")
		}
		filtered := k.page("/?q=WEB-")
		has(t, filtered, true, "orders/7")
		has(t, filtered, false, "reader", ">supplier<")
		has(t, k.page("/?q=nobody"), true, "No hold matches", "No limit matches")
		one := k.page("/page/key?key=orders/7")
		has(t, one, true, "web-3", a.text("token"))
		has(t, one, false, "reader", "supplier", "/page/break")
		has(t, k.page("/page/key?key=other"), true, "Nobody holds this key.")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_ = k.Drain(ctx)
		time.Sleep(time.Second)
		has(t, k.page("/"), true, ">Draining<", "waits for its 3 holds")
	})
}

// Nothing that somebody can have put into the store is more than text.
func TestPageEscapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		const key, name = "<script>alert(1)</script>\u202e\x1b\n'\"&", `"><img/src=x/onerror=alert(1)>`
		if _, err := k.client.TryLock(t.Context(), key, coord.HolderName(name)); err != nil {
			t.Fatal(err)
		}
		at := "/page/key?" + url.Values{"key": {key}}.Encode()
		for _, path := range []string{"/", at, "/?q=%3Cscript%3E", "/?q=%3Cscript%3Ealert(2)", "/?done=%3Cscript%3E"} {
			page := k.page(path)
			has(t, page, false, "<script>", "<img/", "\u202e", "\x1b")
			if path == "/" || path == at {
				has(t, page, true, "&lt;script&gt;", `\u202e\x1b\n`)
			}
		}
		headers := k.visit(http.MethodGet, "/", nil).Header()
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; ", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		} {
			if got := headers.Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
}

// What is asked for without its end is answered without waiting for it.
func TestPageHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		w := k.visit(http.MethodHead, "/page/events", nil)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/event-stream" || w.Body.Len() > 0 {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	})
}

// A browser keeps no file of another version.
func TestPageFiles(t *testing.T) {
	k := start(t, "")
	for query, want := range map[string]string{assetsSum: "public, max-age=31536000, immutable", "": "no-store", "0123456789ab": "no-store"} {
		w := k.visit(http.MethodGet, "/page/page.css?"+query, nil)
		if got := w.Header().Get("Cache-Control"); w.Code != http.StatusOK || got != want {
			t.Errorf("%q: %d %s, want %s", query, w.Code, got, want)
		}
	}
}
