package fault

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A reply is lost, and its request was applied: every time, whatever the server says
// about its windows meanwhile.
func TestHTTP2DropsReplies(t *testing.T) {
	var applied atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		applied.Add(1)
		_, _ = io.WriteString(w, "done")
	}))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)

	p, err := NewHTTP2Proxy(strings.TrimPrefix(srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	call := func() error {
		// More than a window's worth, so that the server sends updates first.
		resp, err := client.Post("http://"+p.Addr(), "text/plain", strings.NewReader(strings.Repeat("x", 200_000)))
		if err != nil {
			return err
		}
		_, err = io.ReadAll(resp.Body)
		if cerr := resp.Body.Close(); err == nil {
			err = cerr
		}
		return err
	}
	for i := range int32(10) {
		if err := call(); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		p.DropReply()
		if err := call(); err == nil {
			t.Errorf("call %d: the reply came", i)
		}
		if n := applied.Load(); n != 2*i+2 {
			t.Errorf("call %d: %d applied, want %d", i, n, 2*i+2)
		}
		p.DropReply()
		p.Heal()
	}
}
