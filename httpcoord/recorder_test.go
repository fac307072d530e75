package httpcoord

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coordgo/coord/coordtest"
)

var errFlush = errors.New("the connection has gone")

// full is a ResponseWriter with all that net/http's has.
type full struct {
	*httptest.ResponseRecorder
	read, hijacked bool
}

func (f *full) FlushError() error { return errFlush }

func (f *full) ReadFrom(src io.Reader) (int64, error) {
	f.read = true
	return io.Copy(f.ResponseRecorder, src)
}

func (f *full) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	f.hijacked = true
	return nil, nil, nil
}

// A handler behind the recorder finds what is before it.
func TestRecorderPassesOn(t *testing.T) {
	w := &full{ResponseRecorder: httptest.NewRecorder()}
	rec := newRecorder(w)
	if _, err := io.Copy(rec, struct{ io.Reader }{strings.NewReader("text")}); err != nil || !w.read || !rec.begun() || w.Body.String() != "text" {
		t.Errorf("ReadFrom: %v, %v, %q", err, w.read, w.Body)
	}
	if err := http.NewResponseController(rec).Flush(); !errors.Is(err, errFlush) {
		t.Errorf("Flush: %v: want its error", err)
	}
	rec = newRecorder(w)
	if _, _, err := http.Hijacker(rec).Hijack(); err != nil || !w.hijacked || !rec.begun() {
		t.Errorf("Hijack: %v, %v, begun: %v", err, w.hijacked, rec.begun())
	}
	plain := newRecorder(struct{ http.ResponseWriter }{httptest.NewRecorder()})
	if _, _, err := plain.Hijack(); !errors.Is(err, http.ErrNotSupported) || plain.begun() {
		t.Errorf("Hijack without one: %v, begun: %v", err, plain.begun())
	}
	if err := http.NewResponseController(plain).Flush(); !errors.Is(err, http.ErrNotSupported) || plain.begun() {
		t.Errorf("Flush without one: %v, begun: %v", err, plain.begun())
	}
}

// The 503 after a loss has nothing of the answer that was not given.
func TestLossRemovesFields(t *testing.T) {
	c := coordtest.New(t)
	h := Locks{Locker: c, Key: func(*http.Request) string { return "k" }}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"Content-Encoding", "ETag", "Cache-Control", "Last-Modified", "Content-Length"} {
			w.Header().Set(name, "public")
		}
		w.Header().Set("X-Request-Id", "7")
		c.Lose("k")
	}))
	w := serve(h, "GET", "/")
	wantProblem(t, w, 503)
	for _, name := range []string{"Content-Encoding", "ETag", "Cache-Control", "Last-Modified", "Content-Length"} {
		if v := w.Header().Get(name); v != "" {
			t.Errorf("%s: %s is left", name, v)
		}
	}
	if w.Header().Get("X-Request-Id") != "7" {
		t.Error("a field of the request has gone")
	}
}
