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

// cut shortens a message that holds, say, the stacks of all goroutines.
func cut(text string) string {
	const enough = 2000
	if len(text) <= enough {
		return text
	}
	return strings.ToValidUTF8(text[:enough], "") + " … (the whole is in the JSON report)"
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

// Some lists the first of many words.
func Some(list []string) string {
	const enough = 8
	if len(list) <= enough {
		return Join(list)
	}
	return fmt.Sprintf("%s and %d more", Join(list[:enough]), len(list)-enough)
}

// Short is a time with three digits.
func Short(d time.Duration) string {
	unit := time.Nanosecond
	for d.Abs()/1000 >= unit { // not 1000*unit, which could overflow
		unit *= 10
	}
	return d.Round(unit).String()
}
