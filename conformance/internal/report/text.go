// Package report shows what a run of the conformance suite finds while it goes on. It is given texts and numbers, and
// judges nothing.
package report

import (
	"fmt"
	"strings"
	"time"
)

// Message is one thing that a case said.
type Message struct {
	Failure bool
	At      string
	After   time.Duration
	Text    string
}

// Join lists words.
func Join[T any](list []T) string {
	var b strings.Builder
	for i, v := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, v)
	}
	return b.String()
}
