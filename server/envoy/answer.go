package envoy

import (
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

func inSeconds(d time.Duration) *durationpb.Duration {
	return &durationpb.Duration{Seconds: seconds(d)}
}

// headers are what the answer to the client of Envoy says of the limit that is nearest.
func headers(status *pb.RateLimitResponse_DescriptorStatus) []*core.HeaderValue {
	number := func(name string, n uint64) *core.HeaderValue {
		return &core.HeaderValue{Key: name, Value: strconv.FormatUint(n, 10)}
	}
	return []*core.HeaderValue{
		number("RateLimit-Limit", uint64(status.CurrentLimit.RequestsPerUnit)),
		number("RateLimit-Remaining", uint64(status.LimitRemaining)),
		number("RateLimit-Reset", uint64(status.DurationUntilReset.GetSeconds())),
	}
}

// metadata is what the access log of Envoy may show: the request, and the metadata of the rules that it passed.
func (d *decision) metadata(statuses []*pb.RateLimitResponse_DescriptorStatus) *structpb.Struct {
	texts := make([]*structpb.Value, len(d.parts))
	passed := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := range d.parts {
		p := &d.parts[i]
		texts[i] = describe(d.request.Descriptors[i])
		if p.rule != nil && p.rule.metadata != nil && statuses[i].Code == pb.RateLimitResponse_OK {
			merge(passed, p.rule.metadata)
		}
	}
	fields := map[string]*structpb.Value{
		"domain":      structpb.NewStringValue(d.request.Domain),
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: texts}),
	}
	if n := d.request.HitsAddend; n != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(n))
	}
	if len(passed.Fields) > 0 {
		fields["metadata"] = structpb.NewStructValue(passed)
	}
	return &structpb.Struct{Fields: fields}
}

func describe(rd *common.RateLimitDescriptor) *structpb.Value {
	entries := make([]*structpb.Value, len(rd.GetEntries()))
	for i, e := range rd.GetEntries() {
		entries[i] = structpb.NewStringValue(e.GetKey() + "=" + e.GetValue())
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if limit := rd.GetLimit(); limit != nil {
		fields["limit"] = structpb.NewStringValue(limit.String())
	}
	if n := rd.GetHitsAddend(); n != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(n.GetValue()))
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: fields})
}

// merge adds to the fields of to what it has not, mappings within mappings too.
func merge(to, from *structpb.Struct) {
	for name, v := range from.GetFields() {
		have, ok := to.Fields[name]
		switch {
		case !ok:
			to.Fields[name] = proto.Clone(v).(*structpb.Value)
		case have.GetStructValue() != nil && v.GetStructValue() != nil:
			merge(have.GetStructValue(), v.GetStructValue())
		}
	}
}
