package httpcoord

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// recorder remembers the status of an answer. What else the ResponseWriter can do is
// there through http.ResponseController.
type recorder struct {
	http.ResponseWriter
	status int // 0 before the answer has begun
}

func newRecorder(w http.ResponseWriter) *recorder { return &recorder{ResponseWriter: w} }

// begun reports whether the status has been sent.
func (r *recorder) begun() bool { return r.status != 0 }

// WriteHeader notes the status; those of 1xx come before the answer.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush is for handlers that request for http.Flusher; where there is none it does nothing.
func (r *recorder) Flush() { _ = r.FlushError() }

// FlushError is for http.ResponseController.
func (r *recorder) FlushError() error {
	err := http.NewResponseController(r.ResponseWriter).Flush()
	if r.status == 0 && !errors.Is(err, http.ErrNotSupported) {
		r.status = http.StatusOK
	}
	return err
}

// Hijack is for handlers that request for http.Hijacker; where there is none it says so.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil && r.status == 0 {
		r.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// ReadFrom lets io.Copy use what the ResponseWriter has for files.
func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return io.Copy(r.ResponseWriter, src)
}

// restart removes the fields that described an answer which is not given.
func (r *recorder) restart() {
	for _, name := range []string{
		"Accept-Ranges", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length", "Content-Location", "Content-Range",
		"Content-Type", "Etag", "Expires", "Last-Modified", "Location", "Trailer",
	} {
		r.Header().Del(name)
	}
}
