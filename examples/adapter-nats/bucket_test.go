package natskv

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coordgo/coord/driver"
)

// good is the configuration of a bucket that Create makes, as far as check looks at it.
func good() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1,
		MaxMsgs: -1, MaxBytes: -1, AllowMsgTTL: true, FirstSeq: uint64(time.Now().UnixMicro()),
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	if skew, err := check("b", good()); err != nil || skew != defaultSkew {
		t.Fatalf("a bucket as Create makes it: %v, %v", skew, err)
	}
	for _, tc := range []struct {
		word  string
		spoil func(*jetstream.StreamConfig)
	}{
		{"memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }},
		{"persist_mode", func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode }},
		{"no_ack", func(c *jetstream.StreamConfig) { c.NoAck = true }},
		{"retention", func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }},
		{"history", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }},
		{"ttl: none", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
		{"discard", func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 }},
		{"discard", func(c *jetstream.StreamConfig) { c.Discard, c.MaxMsgs = jetstream.DiscardOld, 1000 }},
		{"max_value_size", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 100 }},
		{"mirror", func(c *jetstream.StreamConfig) { c.Mirror = &jetstream.StreamSource{Name: "x"} }},
		{"sources", func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "x"}} }},
		{"subject transform", func(c *jetstream.StreamConfig) { c.SubjectTransform = &jetstream.SubjectTransformConfig{} }},
		{"counter", func(c *jetstream.StreamConfig) { c.AllowMsgCounter = true }},
		{"sealed", func(c *jetstream.StreamConfig) { c.Sealed = true }},
		{"allow_msg_ttl", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }},
		{"first_seq", func(c *jetstream.StreamConfig) { c.FirstSeq = 1 }},
		{skewKey, func(c *jetstream.StreamConfig) { c.Metadata = map[string]string{skewKey: "soon"} }},
		{skewKey, func(c *jetstream.StreamConfig) { c.Metadata = map[string]string{skewKey: "1ms"} }},
	} {
		c := good()
		tc.spoil(&c)
		_, err := check("b", c)
		if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), tc.word) {
			t.Errorf("got %v, want a refusal that says %q", err, tc.word)
		}
	}
}

func TestCheckAcceptsABoundThatEvictsNothing(t *testing.T) {
	t.Parallel()
	c := good()
	c.MaxBytes, c.Metadata = 1<<30, map[string]string{skewKey: "2s"}
	if skew, err := check("b", c); err != nil || skew != 2*time.Second {
		t.Errorf("got %v, %v", skew, err)
	}
}
