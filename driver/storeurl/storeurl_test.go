package storeurl

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

func spec(timeout *time.Duration, size *int, mode *string) Spec {
	return Spec{
		Scheme: "store", TLSScheme: "stores", DefaultPort: "99", Many: true, User: true, Path: true,
		Params: map[string]Param{
			"timeout": Duration(timeout, time.Millisecond, time.Hour),
			"size":    Int(size, 1, 10),
			"mode":    OneOf(mode, "a", "b"),
		},
	}
}

func TestParse(t *testing.T) {
	var timeout time.Duration
	var size int
	var mode string
	u, err := url.Parse("stores://me:secret@h1,h2:7/some/path?timeout=2s&size=3&mode=b&tls_insecure=true")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(u, spec(&timeout, &size, &mode))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Hosts, []string{"h1:99", "h2:7"}) || got.User != "me" || got.Password != "secret" || got.Path != "some/path" {
		t.Errorf("read %+v", got)
	}
	if timeout != 2*time.Second || size != 3 || mode != "b" {
		t.Errorf("parameters %v %d %s", timeout, size, mode)
	}
	if got.TLS == nil || !got.TLS.InsecureSkipVerify || got.TLS.ServerName != "" {
		t.Errorf("TLS %+v", got.TLS)
	}
	u, _ = url.Parse("store://[::1]")
	if got, err = Parse(u, spec(&timeout, &size, &mode)); err != nil || !slices.Equal(got.Hosts, []string{"[::1]:99"}) || got.TLS != nil {
		t.Errorf("IPv6: %+v, %v", got, err)
	}
	u, _ = driver.ParseURL("store://[::1],[2001:db8::2]:7,h,10.0.0.1:8")
	if got, err = Parse(u, spec(&timeout, &size, &mode)); err != nil || !slices.Equal(got.Hosts, []string{"[::1]:99", "[2001:db8::2]:7", "h:99", "10.0.0.1:8"}) {
		t.Errorf("a list with IPv6: %+v, %v", got, err)
	}
	u, _ = url.Parse("stores://h1")
	if got, err = Parse(u, spec(&timeout, &size, &mode)); err != nil || got.TLS.ServerName != "h1" {
		t.Errorf("one host: %+v, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		"other://h":                  `scheme "other": want store or stores`,
		"store:h":                    "want a form like store://host:99",
		"store:///path":              "want a form like store://host:99",
		"store://h#x":                "a fragment: want none",
		"store://h,":                 "a host is empty",
		"store://h:0":                `port "0": want 1 to 65535`,
		"store://h:70000":            `port "70000": want 1 to 65535`,
		"store://h,h:99":             "host h:99 is given twice",
		"store://[::1]:5,[::1]:5":    "host [::1]:5 is given twice",
		"store://[::1]:0,h":          `port "0": want 1 to 65535`,
		"store://h:,g":               `port "": want 1 to 65535`,
		"store://::1":                `host "::1": want host:99, or an address of IPv6 in brackets, such as [::1]:99`,
		"store://::1:7":              `host "::1:7": want host:99, or an address of IPv6 in brackets`,
		"store://h:7:8":              `host "h:7:8": want host:99, or an address of IPv6 in brackets`,
		"store://[fe80::1%25a,b]:7":  `host "[fe80::1%a": want host:99, or an address of IPv6 in brackets`,
		"store://h?colour=red":       `parameter "colour": want prefix, mode, size, timeout, tls_ca, tls_cert, tls_insecure, tls_key, tls_server_name`,
		"store://h?s3cret":           "an unknown parameter: want prefix, mode",
		"store://h?S3cret=x":         "an unknown parameter: want prefix, mode",
		"store://h?size=1&size=2":    "parameter size is given 2 times: want once",
		"store://h?size=11":          `parameter size="11": want 1 to 10`,
		"store://h?timeout=2":        `parameter timeout="2": want a duration from 1ms to 1h0m0s`,
		"store://h?mode=c":           `parameter mode="c": want one of a, b`,
		"store://h?tls_ca=x":         "parameter tls_ca: want a stores:// URL",
		"stores://h?tls_ca=/no/file": "parameter tls_ca: open /no/file",
		"stores://h?tls_cert=x":      "want both or none",
		"stores://h?tls_insecure=so": `parameter tls_insecure="so": want true or false`,
	} {
		u, err := driver.ParseURL(raw)
		if err != nil {
			t.Fatal(err)
		}
		var timeout time.Duration
		var size int
		var mode string
		_, err = Parse(u, spec(&timeout, &size, &mode))
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
	u, _ := url.Parse("store://me:secret@h1,h2/p")
	_, err := Parse(u, Spec{Scheme: "store", DefaultPort: "1"})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v: want an error without the password", err)
	}
}

// Whatever the URL, Parse gives hosts or ErrInvalid, and never the password.
func FuzzParse(f *testing.F) {
	f.Add("store://h1,h2:7/p?size=2")
	f.Add("store://[::1]:6,[::2],h:7/")
	f.Add("stores://u:zzsecretzz@[::1]:2?tls_ca=x")
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := driver.ParseURL(raw)
		if err != nil || strings.Contains(raw, "tls_") {
			return // not a URL, or one that names files
		}
		var timeout time.Duration
		var size int
		var mode string
		got, err := Parse(u, spec(&timeout, &size, &mode))
		for _, h := range got.Hosts {
			if host, port, herr := net.SplitHostPort(h); err == nil && (herr != nil || host == "" || port == "" || strings.ContainsAny(host, "[],")) {
				t.Errorf("%q: host %q", raw, h)
			}
		}
		if err == nil && len(got.Hosts) == 0 || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q: %v, %v", raw, got.Hosts, err)
		}
	})
}
