package main

import (
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// answer is what is recorded of an answer, nil if it is none that July's version would give.
func answer(a *pb.RateLimitResponse) []byte {
	if january {
		for _, s := range a.Statuses {
			if s.CurrentLimit != nil && s.DurationUntilReset == nil {
				return nil // exceeded, in quota mode
			}
		}
		delete(a.GetDynamicMetadata().GetFields(), "quotaModeEnabled")
		delete(a.GetDynamicMetadata().GetFields(), "quotaModeViolations")
	}
	text, err := protojson.Marshal(a)
	if err != nil {
		panic(err)
	}
	return text
}
