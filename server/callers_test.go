package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/config"
)

const called = `
limits: {web: 9/1s, other: 9/1s}
serve:
  max_holds: 2
  max_requests: 3
  callers:
    - {name: web, token: "web-web-web-web-web", allow: [{prefix: web, rights: [take, lock, read]}]}
    - {name: all, token: "all-all-all-all-all", allow: [{rights: [read, take, lock, break]}]}
`

// Each caller may do what the configuration says, and no more.
func TestRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, web, all := start(t, called), bearer("web-web-web-web-web"), bearer("all-all-all-all-all")
		mine := k.post(acquirePath, `{"key":"web/job"}`, web).ok(t)
		for _, tc := range []struct {
			path, body string
			who        func(*http.Request)
			status     int
			code       string
		}{
			{acquirePath, `{"key":"other"}`, web, 403, "forbidden"},
			{acquirePath, `{"keys":["web/a","other"]}`, web, 403, "forbidden"},
			{"/v1/locks/list", `{}`, web, 403, "forbidden"},
			{"/v1/locks/list", `{"prefix":"web/"}`, web, 200, ""},
			{"/v1/locks/list", `{}`, all, 200, ""},
			{"/v1/locks/break", `{"key":"web/job","id":"x"}`, web, 403, "forbidden"},
			{"/v1/locks/break", `{"key":"web/job","id":"x"}`, all, 409, "not_held"},
			{"/v1/locks/break", `{"key":"web/job","id":"x","mode":"both"}`, all, 400, "invalid"},
			{"/v1/limits/take", `{"key":"web"}`, web, 200, ""},
			{"/v1/limits/take", `{"key":"other"}`, web, 403, "forbidden"},
			{"/v1/limits/reset", `{"key":"web"}`, web, 403, "forbidden"},
			{renewPath, id(mine), all, 409, "not_held"}, // it is another's
			{releasePath, id(mine), all, 409, "not_held"},
			{renewPath, id(mine), web, 200, ""},
			{renewPath, id(mine), bearer("web-web-web-web-we"), 401, "unauthenticated"},
			{renewPath, id(mine), bearer(""), 401, "unauthenticated"},
			{renewPath, id(mine), with("Authorization", "Basic d2ViOndlYg=="), 401, "unauthenticated"},
			{renewPath, id(mine), with("Cookie", "a=b"), 401, "unauthenticated"},
			{"/v1/locks/nothing", `{}`, web, 404, "no_such_path"},
			{"/v1/locks/nothing", `{}`, bearer("x"), 401, "unauthenticated"},
		} {
			k.post(tc.path, tc.body, tc.who).want(t, tc.status, tc.code)
		}
	})
}

// Holds and requests of a caller are bounded, and those of another are not counted with them.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, web, all := start(t, called), bearer("web-web-web-web-web"), bearer("all-all-all-all-all")
		k.post(acquirePath, `{"key":"web1"}`, all).ok(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan answer)
		for range 2 {
			go func() { done <- k.postIn(ctx, acquirePath, `{"key":"web1","wait_ms":60000}`, web) }()
		}
		synctest.Wait()
		k.post(acquirePath, `{"key":"web2"}`, web).want(t, http.StatusTooManyRequests, "too_many_holds")
		go func() { done <- k.postIn(ctx, "/v1/limits/take", `{"key":"web","n":9,"wait_ms":60000}`, web) }()
		(<-done).ok(t)
		go func() { done <- k.postIn(ctx, "/v1/limits/take", `{"key":"web","n":9,"wait_ms":60000}`, web) }()
		synctest.Wait()
		k.post("/v1/limits/peek", `{"key":"web"}`, web).want(t, http.StatusTooManyRequests, "too_many_requests")
		k.post(renewPath, `{"id":"x"}`, web).want(t, http.StatusConflict, "not_held") // a holder holds on
		k.post(releasePath, `{"id":"x"}`, web).want(t, http.StatusConflict, "not_held")
		k.post(renewPath, `{"id":"x"}`, all).want(t, http.StatusConflict, "not_held")
		cancel()
		for range 3 {
			<-done
		}
		synctest.Wait()
		k.post(acquirePath, `{"key":"web2"}`, web).ok(t)
	})
}

// What is not one JSON object of the right kind, or comes from a page in a browser, has no effect.
func TestRefusedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		const good = `{"key":"job"}`
		for name, tc := range map[string]struct {
			body   string
			edit   func(*http.Request)
			status int
			code   string
		}{
			"unknown field":    {`{"key":"job","tll_ms":1}`, nil, 400, "invalid"},
			"capitals":         {`{"KEY":"job"}`, nil, 400, "invalid"},
			"two values":       {good + good, nil, 400, "invalid"},
			"no value":         {``, nil, 400, "invalid"},
			"a list":           {`[` + good + `]`, nil, 400, "invalid"},
			"half":             {`{"key":"jo`, nil, 400, "invalid"},
			"a wrong type":     {`{"key":1}`, nil, 400, "invalid"},
			"huge":             {`{"key":"` + strings.Repeat("x", 70_000) + `"}`, nil, 413, "too_large"},
			"a long key":       {`{"key":"` + strings.Repeat("x", 1025) + `"}`, nil, 400, "invalid"},
			"a form":           {good, with("Content-Type", "application/x-www-form-urlencoded"), 415, "media_type"},
			"another page":     {good, with("Origin", "https://evil.example"), 403, "forbidden"},
			"another site":     {good, with("Sec-Fetch-Site", "cross-site"), 403, "forbidden"},
			"another name":     {good, func(r *http.Request) { r.Host = "evil.example" }, 403, "forbidden"},
			"with a character": {good, with("Content-Type", "application/json; charset=utf-8"), 200, ""},
		} {
			if tc.edit == nil {
				tc.edit = func(*http.Request) {}
			}
			if a := k.post(acquirePath, tc.body, tc.edit); a.status != tc.status || a.code() != tc.code {
				t.Errorf("%s: %d %v", name, a.status, a.body)
			}
		}
	})
}

// A page of another site may not open a stream either.
func TestRefusedStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		for _, site := range []string{"cross-site", "same-site"} {
			r := httptest.NewRequest(http.MethodGet, "/v1/locks/watch?key=job", nil)
			r.Host = "localhost"
			r.Header.Set("Sec-Fetch-Site", site)
			w := httptest.NewRecorder()
			if k.ServeHTTP(w, r); w.Code != http.StatusForbidden {
				t.Errorf("%s: %d", site, w.Code)
			}
		}
	})
}

// The names under which a server without callers answers.
func TestOwnHost(t *testing.T) {
	for host, own := range map[string]bool{
		"localhost": true, "localhost:8470": true, "127.0.0.1:8470": true, "[::1]:8470": true, "[::1]": true,
		"evil.example": false, "coord": false, "localhost.evil.example": false, "": false, "127.0.0.1.evil.example:80": false,
	} {
		if ownHost(host) != own {
			t.Errorf("%q: %v", host, !own)
		}
	}
}

// A panic ends its request alone.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		k.mux.HandleFunc("POST /v1/panic", func(http.ResponseWriter, *http.Request) { panic("a test") })
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/v1/panic", nil)
		r.Host = "localhost"
		k.ServeHTTP(w, r)
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), `"internal"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		k.post(acquirePath, `{"key":"job"}`).ok(t)
		if n := k.callers.everybody.requests.Load(); n != 0 {
			t.Errorf("%d requests are under way", n)
		}
	})
}

// Health needs no token. A server that drains is not ready.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, called)
		get := func(path string, status int) {
			t.Helper()
			w := httptest.NewRecorder()
			k.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != status {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		get("/livez", 200)
		get("/readyz", 200)
		get("/openapi.json", 401)
		get("/metrics", 401)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = k.Drain(ctx)
		get("/livez", 200)
		get("/readyz", 503)
	})
}

// Callers change with the file: who stays keeps its holds, who is gone renews no more, and what cannot be taken changes
// nothing.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "coord.yaml")
		write := func(callers string) {
			t.Helper()
			if err := os.WriteFile(path, []byte("url: memory://\nserve: {callers: ["+callers+"]}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(`{name: web, token: web-web-web-web-web, allow: [{rights: [lock]}]}, {name: old, token: old-old-old-old-old, allow: [{rights: [lock]}]}`)
		client, err := config.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		k := startOn(t, client, nil)
		reload := func() error {
			t.Helper()
			if err := client.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			return k.Reload(t.Context())
		}
		web, old, renewed := bearer("web-web-web-web-web"), bearer("old-old-old-old-old"), bearer("new-new-new-new-new")
		mine, its := k.post(acquirePath, `{"key":"a"}`, web).ok(t), k.post(acquirePath, `{"key":"b"}`, old).ok(t)
		streamed := make(chan answer)
		go func() { streamed <- k.streamed(`{"key":"c"}`, old) }()
		synctest.Wait()
		write(`{name: web, token: new-new-new-new-new, allow: [{rights: [read]}]}, {name: more, token: new-new-new-new-new, allow: [{rights: [read]}]}`)
		if err := reload(); err == nil || !strings.Contains(err.Error(), "one token") {
			t.Errorf("two callers with one token: %v", err)
		}
		k.post(renewPath, id(mine), web).ok(t)
		write(`{name: web, token: new-new-new-new-new, allow: [{rights: [read]}]}`)
		if err := reload(); err != nil {
			t.Fatal(err)
		}
		k.post(renewPath, id(mine), renewed).ok(t)
		k.post(renewPath, id(mine), web).want(t, http.StatusUnauthorized, "unauthenticated")
		k.post(renewPath, id(its), old).want(t, http.StatusUnauthorized, "unauthenticated")
		k.post(acquirePath, `{"key":"d"}`, renewed).want(t, http.StatusForbidden, "forbidden")
		if a := <-streamed; a.code() != "unauthenticated" {
			t.Errorf("the stream of a caller that is gone ends with %v", a.body)
		}
		time.Sleep(time.Minute)
		k.post("/v1/locks/list", `{}`, renewed).ok(t)
	})
}

// streamed holds keys by a stream to its end, and gives the last event.
func (k *kit) streamed(body string, edit func(*http.Request)) (last answer) {
	r := httptest.NewRequestWithContext(k.t.Context(), http.MethodPost, "/v1/locks/hold", strings.NewReader(body))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	edit(r)
	w := httptest.NewRecorder()
	k.ServeHTTP(w, r)
	_, data, _ := strings.Cut(w.Body.String(), "event: error\ndata: ")
	if err := json.Unmarshal([]byte(data), &last.body); err != nil {
		k.t.Errorf("%s: %v", w.Body, err)
	}
	return last
}
