package main

import (
	"encoding/hex"
	"errors"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

func TestEnvoyRequest(t *testing.T) {
	want := &rls.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: "7"}}},
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "path", Value: "7"}}},
	}}
	got := new(rls.RateLimitRequest)
	if err := proto.Unmarshal(envoyRequest("d", entries("7", 2)), got); err != nil || !proto.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func TestReadEnvoy(t *testing.T) {
	limit := &rls.RateLimitResponse_RateLimit{RequestsPerUnit: 5, Unit: rls.RateLimitResponse_RateLimit_HOUR}
	ok := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OK, CurrentLimit: limit}
	over := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OVER_LIMIT, CurrentLimit: limit}
	free := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OK}
	for _, tc := range []struct {
		code     rls.RateLimitResponse_Code
		statuses []*rls.RateLimitResponse_DescriptorStatus
		admitted bool
		err      error
	}{
		{code: rls.RateLimitResponse_OK, statuses: []*rls.RateLimitResponse_DescriptorStatus{ok, ok}, admitted: true},
		{code: rls.RateLimitResponse_OVER_LIMIT, statuses: []*rls.RateLimitResponse_DescriptorStatus{ok, over}},
		{code: rls.RateLimitResponse_OK, statuses: []*rls.RateLimitResponse_DescriptorStatus{ok}, err: errAnswer},
		{code: rls.RateLimitResponse_OK, statuses: []*rls.RateLimitResponse_DescriptorStatus{ok, free}, err: errAnswer},
		{code: rls.RateLimitResponse_UNKNOWN, statuses: []*rls.RateLimitResponse_DescriptorStatus{ok, ok}, err: errAnswer},
	} {
		b, err := proto.Marshal(&rls.RateLimitResponse{OverallCode: tc.code, Statuses: tc.statuses})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readEnvoy(b, 2); got != tc.admitted || !errors.Is(err, tc.err) {
			t.Errorf("%v, %v: %v, %v", tc.code, tc.statuses, got, err)
		}
	}
	if _, err := readEnvoy(frame{0x0a}, 1); err == nil {
		t.Error("half a field is an answer")
	}
}

// The messages are as gubernator's own package encodes them.
func TestGubernator(t *testing.T) {
	const request = "0a160a04757365721201371801208088debe012880dddb01" + "0a160a04706174681201371801208088debe012880dddb01"
	if got := hex.EncodeToString(gubernatorRequest("", entries("7", 2))); got != request {
		t.Errorf("%s, want %s", got, request)
	}
	const (
		ok   = "0a26108088debe01180520bb8bcbeba23432150a056f776e6572120c3132372e302e302e313a3830"
		over = "0a0f0801108088debe0120bb8bcbeba234"
		bad  = "0a092a076e6f2070656572"
	)
	for _, tc := range []struct {
		answer   string
		admitted bool
		err      error
	}{
		{ok + ok, true, nil}, {ok + over, false, nil}, {ok + bad, false, errAnswer}, {ok, false, errAnswer},
	} {
		b, err := hex.DecodeString(tc.answer)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readGubernator(b, 2); got != tc.admitted || !errors.Is(err, tc.err) {
			t.Errorf("%s: %v, %v, want %v, %v", tc.answer, got, err, tc.admitted, tc.err)
		}
	}
}
