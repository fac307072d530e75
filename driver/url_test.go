package driver

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for raw, want := range map[string]string{ // the hosts
		"redis://h1:1,h2:2/0":                         "h1:1,h2:2",
		"redis://h1:1,h2":                             "h1:1,h2",
		"redis://h1,h2:2?a=b":                         "h1,h2:2",
		"redis://[::1]:6379/":                         "[::1]:6379",
		"redis://[::1]:6379,[::2]:6379/":              "[::1]:6379,[::2]:6379",
		"redis://[::1],[2001:db8::2]":                 "[::1],[2001:db8::2]",
		"redis://[::1],h,10.0.0.1:7#x":                "[::1],h,10.0.0.1:7",
		"redis://h,[fe80::1%25eth0]:5/0":              "h,[fe80::1%eth0]:5",
		"redis://u:s3%2Fcret,@[::1],[::2]:2/0?a=b,c":  "[::1],[::2]:2",
		"redis+sentinel://:p@[::1],[::2]/main/0?db=1": "[::1],[::2]",
		"etcd://[::1],":                               "[::1],", // the store says which host is empty
		"file:///var/a,b/[c]":                         "",
		"memory://":                                   "",
	} {
		u, err := ParseURL(raw)
		if err != nil || u.Host != want {
			t.Errorf("%s: %v, %v, want hosts %s", raw, u, err, want)
			continue
		}
		if again, err := ParseURL(u.String()); err != nil || again.String() != u.String() || again.Host != want {
			t.Errorf("%s: printed as %s, which is %v, %v", raw, u, again, err)
		}
	}
	u, err := ParseURL("redis://u:s3%2Fcret,@[::1],[::2]:2/0?a=b,c")
	if err != nil {
		t.Fatal(err)
	}
	if p, _ := u.User.Password(); p != "s3/cret," || u.Path != "/0" || u.Query().Get("a") != "b,c" {
		t.Errorf("%s", u)
	}
}

func TestParseURLRefuses(t *testing.T) {
	for _, raw := range []string{
		"", "s3cret", "//s3cret", "redis://u:s3cret@h:bad", "redis://u:s3cret@[::1],[::2", "redis://u:s3cret@[::1],[h]", "redis://u:s3cret@[::1]x,h",
		"redis://u:s3cret@[::1],a b", "redis://u:s3cret@[::1]:1:2,h", "redis://u:%zzs3cret@[::1],h", "redis://[::1],h?s3cret=%zz", "redis://[::1,::2]:3/s3cret",
		"1x://s3cret@[::1],h", "://s3cret@[::1],h", "redis://u:p@ss/s3cret@h", "redis://u:12/s3cret@h", "redis://u:12?s3cret@h", "redis://u:12#s3cret@h",
	} {
		if u, err := ParseURL(raw); !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, %v", raw, u, err)
		}
	}
}

func TestParseURLSaysWhatIsWrong(t *testing.T) {
	for raw, want := range map[string]string{
		"":                        "it is empty: want a form like redis://host:6379/0",
		"redis://h:port":          "its port is not a number",
		"etcd://[::1]:2379,h:bad": "its port is not a number",
		"redis://u:50%@h":         "a % without two hexadecimal digits behind it: write a % of a password as %25",
		"redis://u:50%zz@h":       "a % without two hexadecimal digits behind it: write a % of a password as %25",
		"etcd://u:50%zz@h,i":      "a % without two hexadecimal digits behind it: write a % of a password as %25",
		"redis://h/a%":            "a % without two hexadecimal digits behind it: write a % of a password as %25",
	} {
		if _, err := ParseURL(raw); err == nil || err.Error() != "invalid argument: store URL: "+want {
			t.Errorf("%q: %v, want %s", raw, err, want)
		}
	}
}

func TestRedactURL(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                       "xxxxx",
		"s3cret":                                 "xxxxx",
		"u:s3cret@h":                             "xxxxx",
		"s3cret@://h":                            "xxxxx",
		"memory://":                              "memory://",
		"memory://name":                          "memory://name",
		"file:///var/lib/a%20b":                  "file:///var/lib/a%20b",
		"etcd://[::1]:2379,[::2]:2379":           "etcd://[::1]:2379,[::2]:2379",
		"redis://h:1/0?pool_size=3&prefix=a%2Fb": "redis://h:1/0?pool_size=3&prefix=a%2Fb",
		"redis://s3cret@h":                       "redis://xxxxx@h",
		"redis://u:s3cret@h1:1,h2/12":            "redis://xxxxx@h1:1,h2/12",
		"redis://u:p@s3cret@h":                   "redis://xxxxx@h",
		"redis://u:p@s3/cret@h":                  "redis://xxxxx",
		"redis://u:p#s3cret@h":                   "redis://xxxxx",
		"redis://u:p?s3cret@h":                   "redis://xxxxx",
		"redis://user:6379?s3cret@host":          "redis://xxxxx",
		"redis://user:s3cret":                    "redis://xxxxx",
		"redis://h/s3cret":                       "redis://h/xxxxx",
		"redis://h?apikey=s3cret&pool_size=3":    "redis://h?pool_size=3&xxxxx",
		"redis://h?s3cret":                       "redis://h?xxxxx",
		"redis://h?pool_size=%zz&a=s3cret":       "redis://xxxxx",
		"redis://h#s3cret":                       "redis://h?xxxxx",
		"redis://u:s3cret@h\x1b[0m":              "redis://xxxxx",
	} {
		if got := RedactURL(raw); got != want {
			t.Errorf("%q is shown as %q, want %q", raw, got, want)
		}
	}
}

// urlMistakes are how the errors of a URL begin.
var urlMistakes = []string{"it is empty", "its query is malformed", "its port is not a number", "an @ behind the hosts", "a % without two hexadecimal digits behind it"}

// What is accepted means the same when it is printed and read again, and no error shows what was read.
func FuzzParseURL(f *testing.F) {
	for _, raw := range []string{"", "a://h:b", "redis://[::1]:6379,[::2]:6379/", "redis://u:p%40@h1:1,h2,[fe80::1%25e]/0?a=b#c", "file:///x", "a://,,", "a://[::1],é%C3%A9:1"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := ParseURL(raw)
		if err != nil {
			text, ok := strings.CutPrefix(err.Error(), "invalid argument: store URL: ")
			if i := strings.IndexAny(text, ":,"); i >= 0 {
				text = text[:i]
			}
			if !ok || !slices.Contains(urlMistakes, text) && !strings.HasPrefix(text, "want a form like redis") {
				t.Errorf("%q: %v", raw, err)
			}
			return
		}
		if !strings.Contains(u.Host, ",") || u.Opaque != "" {
			return // the standard library's
		}
		again, err := ParseURL(u.String())
		if err != nil || again.Host != u.Host || again.User.String() != u.User.String() || again.Path != u.Path || again.RawQuery != u.RawQuery {
			t.Errorf("%q is %+v, and printed as %q is %+v, %v", raw, u, u, again, err)
		}
	})
}
