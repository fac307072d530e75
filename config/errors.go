package config

import (
	"strconv"
	"strings"

	"github.com/coordgo/coord"
)

// Error is a mistake in a configuration: where it is, and what is wanted there.
// It matches [coord.ErrInvalid], and never shows a password.
type Error struct {
	// File is the name given to Load or Parse, or "COORD_URL".
	File string
	// Line counts from 1; 0 where the mistake belongs to no line.
	Line int
	// Key is the path of the key, such as "lock.ttl"; "" for the whole file.
	Key string
	// Problem says what is wrong and what is allowed.
	Problem string
}

// Error gives one line: "coord.yaml:7: lock.ttl: "10": want a duration such as 30s".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(e.Line))
	}
	b.WriteString(": ")
	if e.Key != "" {
		b.WriteString(e.Key)
		b.WriteString(": ")
	}
	b.WriteString(e.Problem)
	return b.String()
}

// Is makes errors.Is(err, coord.ErrInvalid) true.
func (e *Error) Is(target error) bool { return target == coord.ErrInvalid }
