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
	"github.com/coordgo/coord/driver/cas"
)

// versions is a bucket as package cas wants it: cas.Versions[uint64].
type versions struct {
	*link
	bucket string
	clock  clock
}

// Headers of JetStream.
const (
	expectHeader = "Nats-Expected-Last-Subject-Sequence"
	streamHeader = "Nats-Expected-Stream"
	ttlHeader    = "Nats-TTL"
	opHeader     = "KV-Operation"       // of a client that deleted
	reasonHeader = "Nats-Marker-Reason" // of a server that let lapse
)

// codeBusy is the refusal of a write while another one of the same key is being agreed on.
const codeBusy jetstream.ErrorCode = 10164

// Load reads a cell. A key that was deleted has a revision, one that never was has 0.
func (v *versions) Load(ctx context.Context, n cas.Name) (loaded cas.Loaded[uint64], err error) {
	loaded.Value, loaded.Version, err = v.get(ctx, key(n))
	if errors.Is(err, nats.ErrDisconnected) { // a read may be repeated
		loaded.Value, loaded.Version, err = v.get(ctx, key(n))
	}
	if err == nil {
		loaded.Now, err = v.clock.now(ctx)
	}
	return loaded, err
}

// get asks the leader. Direct reads, which the library prefers, may be answered by a replica.
func (v *versions) get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	ask := nats.NewMsg("$JS.API.STREAM.MSG.GET." + stream(v.bucket))
	ask.Data = []byte(`{"last_by_subj":` + strconv.Quote(subject(v.bucket, key)) + `}`)
	reply, err := v.ask(ctx, ask)
	if err != nil {
		return nil, 0, err
	}
	var r struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Seq    uint64 `json:"seq"`
			Header []byte `json:"hdrs"`
			Data   []byte `json:"data"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(reply.Data, &r); {
	case err != nil:
		return nil, 0, fmt.Errorf("nats: read: %w", err)
	case r.Error != nil && r.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, 0, nil
	case r.Error != nil:
		return nil, 0, fmt.Errorf("nats: read: %w", r.Error)
	case r.Message.Seq == 0:
		return nil, 0, fmt.Errorf("nats: read: no revision in %.80q", reply.Data)
	}
	m := r.Message
	header, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil && len(m.Header) > 0 {
		return nil, 0, fmt.Errorf("%w: headers of %q: %w", driver.ErrCorrupt, key, err)
	}
	if header.Get(opHeader) != "" || header.Get(reasonHeader) != "" {
		return nil, m.Seq, nil // a marker of what was there
	}
	if m.Data == nil {
		m.Data = []byte{}
	}
	return m.Data, m.Seq, nil
}

// CompareAndSwap publishes on condition of the key's last revision, once.
func (v *versions) CompareAndSwap(ctx context.Context, n cas.Name, revision uint64, c cas.Change) (bool, error) {
	m := nats.NewMsg(subject(v.bucket, key(n)))
	m.Data = c.Value
	m.Header.Set(expectHeader, strconv.FormatUint(revision, 10))
	m.Header.Set(streamHeader, stream(v.bucket))
	if c.Value == nil { // a marker, which goes by itself
		m.Header.Set(opHeader, "DEL")
		c.Keep = time.Minute
	}
	m.Header.Set(ttlHeader, strconv.FormatInt(wholeSeconds(c.Keep), 10)+"s")
	reply, err := v.ask(ctx, m)
	if err != nil {
		return false, err
	}
	var r struct {
		Error *jetstream.APIError `json:"error"`
		Seq   uint64              `json:"seq"`
	}
	switch err := json.Unmarshal(reply.Data, &r); {
	case err != nil:
		return false, fmt.Errorf("nats: publish: %w", err)
	case r.Error != nil && (r.Error.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || r.Error.ErrorCode == codeBusy):
		return false, nil
	case r.Error != nil:
		return false, fmt.Errorf("nats: publish: %w", r.Error)
	case r.Seq == 0:
		return false, fmt.Errorf("nats: publish: no revision in %.80q", reply.Data)
	}
	return true, nil
}

// wholeSeconds rounds up to what NATS can do, at least one: less is refused, and none means for ever.
func wholeSeconds(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}

// Ping asks the stream's leader.
func (v *versions) Ping(ctx context.Context) error {
	_, err := look(ctx, v.link, v.bucket)
	return err
}

// Describe tells how the bucket is set up.
func (v *versions) Describe(ctx context.Context) (map[string]string, error) {
	info, err := look(ctx, v.link, v.bucket)
	if err != nil {
		return nil, err
	}
	return describe(info, v.nc.ConnectedServerVersion()), nil
}

// Close ends calls under way.
func (v *versions) Close() error {
	v.close()
	return nil
}

// stamp is the leader's clock, and says nothing of any key.
func (v *versions) stamp(ctx context.Context) (time.Time, error) {
	info, err := look(ctx, v.link, v.bucket)
	if err != nil {
		return time.Time{}, err
	}
	return info.TimeStamp, nil
}
