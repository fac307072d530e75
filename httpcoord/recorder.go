package httpcoord

import "net/http"

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

// Flush is for handlers that ask for http.Flusher; where there is none it does nothing.
func (r *recorder) Flush() {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	_ = http.NewResponseController(r.ResponseWriter).Flush()
}
