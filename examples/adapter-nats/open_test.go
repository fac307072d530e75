package natskv

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

func TestReadURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*Config{
		"nats://h:4222/b":                        nil,
		"nats://h/b?tls=true":                    nil,
		"nats://h:4222/b?replicas=3":             {Bucket: "b", Replicas: 3},
		"nats://h:4222/b?replicas=1&skew=300ms":  {Bucket: "b", Replicas: 1, Skew: 300 * time.Millisecond},
		"nats://user:secret@h:4222/b?replicas=1": {Bucket: "b", Replicas: 1},
	} {
		bucket, c, _, err := read(parse(t, text))
		if err != nil || bucket != "b" || (c == nil) != (want == nil) || c != nil && *c != *want {
			t.Errorf("%s: got %q, %+v, %v; want %+v", text, bucket, c, err, want)
		}
	}
}

func TestReadURLRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"nats://h:4222", "nats://h:4222/", "nats://h:4222/a/b", "nats://h:4222/a.b", "nats:///b", "nats://h:4222/b#x",
		"nats://h/b?bucket=c", "nats://h/b?replicas=many", "nats://h/b?replicas=1&replicas=3", "nats://h/b?skew=1s",
		"nats://h/b?tls=perhaps", "nats://h/b?replicas=1&skew=soon", "nats://user:secret@h/b?x=y", "nats://h/b?%zz",
	} {
		if _, _, _, err := read(parse(t, text)); !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want ErrInvalid without the password", text, err)
		}
	}
}

// read takes what it is given: it never panics, and a URL that it accepts names a bucket.
func FuzzReadURL(f *testing.F) {
	for _, seed := range []string{"nats://h:4222/b?replicas=1&skew=1s", "nats://h/b?x=%zz", "nats://u:p@h,h2/b#f", "nats:opaque"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		bucket, c, _, err := read(u)
		switch {
		case err != nil && !errors.Is(err, driver.ErrInvalid):
			t.Errorf("%q: %v is not ErrInvalid", text, err)
		case err == nil && (!validBucket(bucket) || c != nil && c.Bucket != bucket):
			t.Errorf("%q: accepted with bucket %q, %+v", text, bucket, c)
		}
	})
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
