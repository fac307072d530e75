package config

import (
	"cmp"
	"errors"
	"slices"
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

// mistakes are those of a file so far, each an *Error.
type mistakes []error

// add adds err, or each of several that were joined. It reports whether there was one.
func (m *mistakes) add(err error) bool {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		*m = append(*m, several.Unwrap()...)
	} else if err != nil {
		*m = append(*m, err)
	}
	return err != nil
}

// err is nil, the only mistake, or all of them.
func (m mistakes) err() error {
	if len(m) == 1 {
		return m[0]
	}
	return errors.Join(m...)
}

// byLine is err with several mistakes of one file in the order of their lines.
func byLine(err error) error {
	var all mistakes
	all.add(err)
	slices.SortStableFunc(all, func(a, b error) int { return cmp.Compare(line(a), line(b)) })
	return all.err()
}

func line(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Line
	}
	return 0
}
