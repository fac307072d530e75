package httpcoord

import (
	"encoding/json"
	"net/http"
)

// problem is what a refused request is answered with (RFC 9457).
type problem struct {
	// Type is "" for about:blank: a problem that its status says all about.
	Type     string   `json:"type,omitempty"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

// quotaExceeded is a problem type of draft-ietf-httpapi-ratelimit-headers-11, part 5, with the
// title that the draft gives it.
func quotaExceeded(policies []string) problem {
	return problem{
		Type:     "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:    "Request cannot be satisfied as assigned quota has been exceeded",
		Status:   http.StatusTooManyRequests,
		Violated: policies,
	}
}

func plain(status int, detail string) problem {
	return problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

func (p problem) write(w http.ResponseWriter) {
	h := w.Header()
	body, err := json.Marshal(p)
	if err != nil { // not with strings and a number
		http.Error(w, p.Title, p.Status)
		return
	}
	h.Del("Content-Length")
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	// A client that has gone needs no answer.
	_, _ = w.Write(append(body, '\n'))
}
