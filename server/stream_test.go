package server

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// events opens a stream over the network, and gives its events one by one, name and data, without comments.
func events(t *testing.T, ctx context.Context, c *http.Client, method, url, body string) (next func() (name, data string), status int) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	got, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = got.Body.Close() })
	lines := bufio.NewScanner(got.Body)
	return func() (name, data string) {
		t.Helper()
		for lines.Scan() {
			line := lines.Text()
			if text, ok := strings.CutPrefix(line, "event: "); ok {
				name = text
			}
			if text, ok := strings.CutPrefix(line, "data: "); ok {
				return name, text
			}
		}
		return "", ""
	}, got.StatusCode
}

// A lock that is held by a stream is free when its connection ends, and a watch sees both.
func TestStreams(t *testing.T) {
	k := start(t, "serve: {listen: '127.0.0.1:0'}")
	addr, end := k.serve()
	c := &http.Client{Transport: new(http.Transport)}
	t.Cleanup(c.CloseIdleConnections)
	url := "http://" + addr.String()
	watched, watching := context.WithCancel(t.Context())
	defer watching()
	seen, _ := events(t, watched, c, http.MethodGet, url+"/v1/locks/watch?key=job", "")
	if name, data := seen(); name != "holders" || data != `{"holders":[]}` {
		t.Errorf("the watch begins with %s %s", name, data)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	held, status := events(t, ctx, c, http.MethodPost, url+"/v1/locks/hold", `{"key":"job","name":"streamer"}`)
	if name, data := held(); name != "held" || status != http.StatusOK || !strings.Contains(data, `"token":"`) || strings.Contains(data, "remaining") {
		t.Errorf("the stream begins with %d %s %s", status, name, data)
	}
	if name, data := seen(); name != "holders" || !strings.Contains(data, `"name":"streamer"`) {
		t.Errorf("the watch goes on with %s %s", name, data)
	}
	ask(t, c, url+acquirePath, `{"key":"job"}`).want(t, http.StatusLocked, "locked")
	leave()
	a := ask(t, c, url+acquirePath, `{"key":"job","wait_ms":60000}`).ok(t)
	ask(t, c, url+releasePath, id(a)).ok(t)
	for _, tc := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPost, "/v1/locks/hold", `{"key":"job","request_id":"r"}`, http.StatusBadRequest},
		{http.MethodPost, "/v1/locks/hold", `{}`, http.StatusBadRequest},
		{http.MethodGet, "/v1/locks/watch?key=job&mode=both", ``, http.StatusBadRequest},
		{http.MethodGet, "/v1/locks/watch", ``, http.StatusBadRequest},
	} {
		if _, status := events(t, t.Context(), c, tc.method, url+tc.path, tc.body); status != tc.status {
			t.Errorf("%s %s: %d, want %d", tc.path, tc.body, status, tc.status)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// A server that ends tells a held stream, and frees what it holds.
func TestStreamsDrain(t *testing.T) {
	k := start(t, "serve: {listen: '127.0.0.1:0'}")
	addr, end := k.serve()
	c := &http.Client{Transport: new(http.Transport)}
	t.Cleanup(c.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	held, _ := events(t, ctx, c, http.MethodPost, "http://"+addr.String()+"/v1/locks/hold", `{"key":"job","mode":"write"}`)
	held()
	ended := make(chan error)
	go func() { ended <- end() }()
	if name, data := held(); name != "error" || !strings.Contains(data, `"closed"`) {
		t.Errorf("the stream ends with %s %s", name, data)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
