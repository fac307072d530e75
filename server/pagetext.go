package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// piece is a part of a text from the store. Hidden is for what no browser shows, or shows as something else: it is
// written as Go writes it.
type piece struct {
	Text   string
	Hidden bool
}

// pieces are a text from the store, in which anybody can have put control characters or what is no UTF-8.
func pieces(text string) (list []piece) {
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		shown, hidden := text[:size], false
		switch {
		case r == utf8.RuneError && size == 1:
			shown, hidden = fmt.Sprintf(`\x%02x`, text[0]), true
		case !unicode.IsPrint(r):
			shown, hidden = strings.Trim(strconv.QuoteRuneToASCII(r), "'"), true
		}
		text = text[size:]
		if n := len(list); n > 0 && list[n-1].Hidden == hidden {
			list[n-1].Text += shown
		} else {
			list = append(list, piece{shown, hidden})
		}
	}
	return list
}

// plain is a text from the store where a page has no place for elements.
func plain(text string) string {
	var b strings.Builder
	for _, p := range pieces(text) {
		b.WriteString(p.Text)
	}
	return b.String()
}

// span is a time for people: "24 s", "4 min 10 s", "2 h 5 min", "3 d 4 h". The script counts down in the same words.
func span(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	for _, u := range []struct {
		of          int64
		name, small string
		per         int64
	}{{86400, "d", "h", 3600}, {3600, "h", "min", 60}, {60, "min", "s", 1}} {
		if s >= u.of {
			return fmt.Sprintf("%d %s %d %s", s/u.of, u.name, s%u.of/u.per, u.small)
		}
	}
	return strconv.FormatInt(s, 10) + " s"
}

// rate is a number a second for people.
func rate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < 0.1:
		return "<0.1"
	case perSecond < 10:
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return strconv.FormatFloat(perSecond, 'f', 0, 64)
}
