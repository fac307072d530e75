package server

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestPieces(t *testing.T) {
	for text, want := range map[string][]piece{
		"":             nil,
		"orders/7 é":   {{"orders/7 é", false}},
		"a\x00\x1bb":   {{"a", false}, {`\x00\x1b`, true}, {"b", false}},
		"\u202egpj":    {{`\u202e`, true}, {"gpj", false}},
		"x\xff\ufffdy": {{"x", false}, {`\xff`, true}, {"\ufffdy", false}},
	} {
		if got := pieces(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// Whatever a text is, what is shown of it are characters that a browser shows.
func FuzzPieces(f *testing.F) {
	f.Add("a\x00\u202e\xff")
	f.Fuzz(func(t *testing.T, text string) {
		shown := plain(text)
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) || (shown == "") != (text == "") {
			t.Errorf("%q is shown as %q", text, shown)
		}
	})
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 400 * time.Millisecond: "0 s", 59 * time.Second: "59 s", time.Minute: "1 min 0 s", 4*time.Minute + 10*time.Second: "4 min 10 s",
		2*time.Hour + 5*time.Minute + 50*time.Second: "2 h 5 min", 76 * time.Hour: "3 d 4 h",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 0.05: "<0.1", 0.5: "0.5", 12.3: "12"} {
		if got := rate(n); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
}
