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
)

// Somebody who leaves does not make the page say for a minute that the settings could not be checked.
func TestPageCheckCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: 'odd://?checks=5ms'")
		_ = k.page("/")
		time.Sleep(2 * time.Second)
		leave := k.watching(1, "/page/events")
		time.Sleep(10 * time.Second)
		sent := leave()[0]
		has(t, sent, false, "context canceled")
		has(t, sent, true, "1 ok")
	})
}

// Somebody who comes back sees no error that is of the own leaving.
func TestPageListCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: 'odd://?late=20ms'")
		k.hold("a")
		k.hold("b")
		leave := k.watching(1, "/page/events")
		time.Sleep(2*time.Second + 30*time.Millisecond)
		leave()
		synctest.Wait()
		page := k.page("/")
		has(t, page, false, "canceled", "could not be read")
	})
}

// Who may read a part sees that part, however many other keys there are.
func TestPageOwnPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: 'odd://?last=web/1'"+paged)
		k.crowd(maxListed + 100)
		k.hold("web/1")
		has(t, k.page("/", k.signIn("web-web-web-web-web")), true, "web/1")
	})
}

// A filter finds what is on the page without it.
func TestPageFilterContains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		k.crowd(maxListed + 200)
		page := k.page("/")
		_, rest, _ := strings.Cut(page, ">job/")
		has(t, k.page("/?q="+rest[:4]), true, "job/"+rest[:4])
	})
}

// The page of a key shows who holds it, however many keys begin as it does.
func TestPageKeyAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: 'odd://?last=job'")
		k.crowd(maxListed + 100)
		k.hold("job")
		has(t, k.page("/page/key?key=job"), true, "Lease left")
	})
}

// Of a store that lists no keys, a filter finds what the page shows without it.
func TestPageUnlistedFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: 'slow://?late=0s&unlisted'")
		k.post(acquirePath, `{"key":"orders/7","name":"web-3"}`).ok(t)
		has(t, k.page("/"), true, "web-3")
		has(t, k.page("/?q=web-3"), true, ">orders/7<")
		has(t, k.page("/?q=s/7"), true, ">orders/7<")
	})
}

// A stream ends with its session.
func TestPageStreamAfterSignOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, paged)
		session := k.signIn("all-all-all-all-all")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan string)
		go func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/page/events", nil)
			r.Host = "localhost"
			session(r)
			w := httptest.NewRecorder()
			k.ServeHTTP(w, r)
			done <- w.Body.String()
		}()
		time.Sleep(5 * time.Second)
		k.visit(http.MethodPost, "/page/sign-out", nil, session)
		time.Sleep(13 * time.Minute)
		k.hold("secret/after")
		time.Sleep(5 * time.Second)
		cancel()
		has(t, <-done, false, "secret/after")
	})
}

// An error tells nobody of a key that he may not read.
func TestPageErrorLeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: 'odd://?fails=secret/1'"+paged)
		k.hold("secret/1")
		k.hold("web/1")
		time.Sleep(time.Second)
		has(t, k.page("/", k.signIn("web-web-web-web-web")), false, "secret/1")
	})
}

// An error of a limit, too, tells nobody of a key that he may not read.
func TestPageLimitErrorLeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: 'odd://?fails=other'"+paged)
		has(t, k.page("/", k.signIn("all-all-all-all-all")), true, "The limits could not be read.", "the node of other")
		page := k.page("/", k.signIn("web-web-web-web-web"))
		has(t, page, true, "The limits could not be read.")
		has(t, page, false, "other<", "of other")
	})
}

// The page of a key says what is so, whatever else is in its address.
func TestPageKeyAndFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		k.hold("web/1")
		has(t, k.page("/page/key?key=web/1&q=zzz"), true, "Lease left")
	})
}

// Signing in again ends the session of before in that browser.
func TestPageSignInAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, paged)
		old := k.signIn("all-all-all-all-all")
		w := k.visit(http.MethodPost, "/page/sign-in", url.Values{"token": {"web-web-web-web-web"}}, old)
		if w.Code != http.StatusSeeOther {
			t.Fatal(w.Code)
		}
		if w := k.visit(http.MethodGet, "/", nil, old); w.Code != http.StatusUnauthorized {
			t.Errorf("the session of before: %d", w.Code)
		}
	})
}

// After a hold of a slow store with many keys was broken, the page shows that.
func TestPageBrokenOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: 'odd://?late=2ms'"+paged)
		all := k.signIn("all-all-all-all-all")
		k.crowd(maxListed + 100)
		k.hold("last")
		leave := k.watching(1, "/page/events")
		defer leave()
		time.Sleep(time.Minute)
		h, err := k.client.Inspect(t.Context(), "last")
		if err != nil {
			t.Fatal(err)
		}
		path := "/page/break?" + url.Values{"key": {"last"}, "id": {h.ID}, "mode": {"exclusive"}}.Encode()
		w := k.visit(http.MethodPost, path, how("break"), all)
		has(t, k.page(w.Header().Get("Location"), all), true, "kept taken")
	})
}

// The page of a key shows who holds it at once, while the store is slow and somebody looks at its many keys.
func TestPageKeyOfSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "url: 'odd://?late=5ms'")
		k.crowd(maxListed + 100)
		leave := k.watching(1, "/page/events")
		time.Sleep(time.Minute)
		k.hold("last")
		began := time.Now()
		has(t, k.page("/page/key?key=last"), true, "Lease left")
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		leave()
	})
}
