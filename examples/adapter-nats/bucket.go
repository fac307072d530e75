package natskv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coordgo/coord/driver"
)

// Config says how a bucket is made.
type Config struct {
	// Bucket is its name: letters, digits, "-" and "_".
	Bucket string
	// Replicas is how many servers keep it: 1, 3 or 5. Zero means 1.
	Replicas int
	// Skew is the most by which clients' views of the store's clock may differ, from 20 ms to 10 s; zero
	// means 250 ms. Round trips must be shorter than half of it, less 5 ms. Every client of the bucket uses it.
	Skew time.Duration
}

const (
	defaultSkew = 250 * time.Millisecond
	minSkew     = 20 * time.Millisecond
	maxSkew     = 10 * time.Second
	// drift is by how much two local clocks may part until they look at the store's again.
	drift = 10 * time.Millisecond
	// skewKey is where a bucket's metadata has its skew.
	skewKey = "coord-skew"
	// roomy is the least size of a message that a bucket must take.
	roomy = 64 << 10
)

// Create makes a bucket, or leaves one of that name as it is. What is in it is durable, and goes
// by its own time to live only. Its revisions begin at the time, in microseconds, so that those of a bucket
// which was deleted do not come again.
func Create(ctx context.Context, nc *nats.Conn, c Config) error {
	if c.Skew == 0 {
		c.Skew = defaultSkew
	}
	switch {
	case !validBucket(c.Bucket):
		return fmt.Errorf("%w: bucket %q: want letters, digits, - and _", driver.ErrInvalid, c.Bucket)
	case c.Skew < minSkew || c.Skew > maxSkew:
		return fmt.Errorf("%w: skew %v: want %v to %v", driver.ErrInvalid, c.Skew, minSkew, maxSkew)
	case c.Replicas < 0 || c.Replicas > 5:
		return fmt.Errorf("%w: %d replicas: want 1 to 5", driver.ErrInvalid, c.Replicas)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name:              stream(c.Bucket),
		Subjects:          []string{subject(c.Bucket, ">")},
		Storage:           jetstream.FileStorage,
		Replicas:          max(c.Replicas, 1),
		Discard:           jetstream.DiscardNew,
		MaxMsgsPerSubject: 1,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		AllowMsgTTL:       true,
		AllowRollup:       true,
		DenyDelete:        true,
		FirstSeq:          uint64(time.Now().UnixMicro()),
		Metadata:          map[string]string{skewKey: c.Skew.String()},
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil // New looks at how it was made
	}
	return err
}

func stream(bucket string) string       { return "KV_" + bucket }
func subject(bucket, key string) string { return "$KV." + bucket + "." + key }

func validBucket(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return name != ""
}

// look asks the stream's leader how it is set up, and what its clock says.
func look(ctx context.Context, l *link, bucket string) (*jetstream.StreamInfo, error) {
	reply, err := l.ask(ctx, nats.NewMsg("$JS.API.STREAM.INFO."+stream(bucket)))
	if err != nil {
		return nil, err
	}
	var r struct {
		jetstream.StreamInfo
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(reply.Data, &r); {
	case err != nil:
		return nil, fmt.Errorf("nats: stream info: %w", err)
	case r.Error != nil && r.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return nil, fmt.Errorf("%w: no bucket %q: create it with natskv.Create, or by ?replicas=1 in the URL", driver.ErrInvalid, bucket)
	case r.Error != nil:
		return nil, fmt.Errorf("nats: stream info: %w", r.Error)
	case r.TimeStamp.IsZero():
		return nil, fmt.Errorf("%w: the server does not tell its clock: want 2.11 or later", driver.ErrUnsupported)
	}
	return &r.StreamInfo, nil
}

// check refuses a bucket that may forget, or lose, what coord has in it, and gives its skew.
func check(bucket string, c jetstream.StreamConfig) (skew time.Duration, err error) {
	for _, rule := range []struct {
		bad          bool
		what, remedy string
	}{
		{c.Storage != jetstream.FileStorage, "is kept in memory", "storage: file"},
		{c.PersistMode != jetstream.DefaultPersistMode, "acknowledges what it has not written", "persist_mode: default"},
		{c.NoAck, "acknowledges nothing", "no_ack: false"},
		{c.Retention != jetstream.LimitsPolicy, "removes what consumers have seen", "retention: limits"},
		{c.MaxMsgsPerSubject != 1, "has a history, out of which old values come back", "history: 1"},
		{c.MaxAge != 0, "forgets everything after a time", "ttl: none"},
		{c.Discard != jetstream.DiscardNew && (c.MaxBytes > 0 || c.MaxMsgs > 0), "drops old values when it is full", "discard: new"},
		{c.MaxMsgSize > 0 && c.MaxMsgSize < roomy, "takes small values only", "max_value_size: none"},
		{c.Mirror != nil || len(c.Sources) > 0, "is fed by others", "no mirror, no sources"},
		{c.SubjectTransform != nil, "renames keys", "no subject transform"},
		{c.AllowMsgCounter, "holds counters", "allow_msg_counter: false"},
		{c.Sealed, "is sealed", "sealed: false"},
		{!c.AllowMsgTTL, "has no time to live for each key", "allow_msg_ttl: true, on a server from 2.11 on"},
		{c.FirstSeq < firstSeq, "counts revisions from the beginning, so that they may come again", "first_seq: the time in µs; natskv.Create does it"},
	} {
		if rule.bad {
			return 0, fmt.Errorf("%w: bucket %q %s: want %s", driver.ErrUnsupported, bucket, rule.what, rule.remedy)
		}
	}
	skew = defaultSkew
	if s := c.Metadata[skewKey]; s != "" {
		skew, err = time.ParseDuration(s)
		if err != nil || skew < minSkew || skew > maxSkew {
			return 0, fmt.Errorf("%w: bucket %q: metadata %s=%.40q: want %v to %v", driver.ErrUnsupported, bucket, skewKey, s, minSkew, maxSkew)
		}
	}
	return skew, nil
}

// firstSeq is a revision that only a bucket which began to count at the time has: the year 2020 in µs.
const firstSeq = 1_577_836_800_000_000

// describe is what reports and operators want to know of the bucket.
func describe(i *jetstream.StreamInfo, server string) map[string]string {
	c := i.Config
	d := map[string]string{
		"topology":      strconv.Itoa(c.Replicas) + " replica",
		"server":        server,
		"storage":       c.Storage.String(),
		"discard":       c.Discard.String(),
		"max_bytes":     strconv.FormatInt(c.MaxBytes, 10),
		"allow_msg_ttl": strconv.FormatBool(c.AllowMsgTTL),
		"allow_direct":  strconv.FormatBool(c.AllowDirect),
		"skew":          c.Metadata[skewKey],
	}
	if c.Replicas != 1 {
		d["topology"] += "s"
	}
	return d
}
