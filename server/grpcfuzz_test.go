package server

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordgo/coord/server/coordpb"
)

// Whatever a message says, it is done or refused, and the answer is one that can be sent.
func FuzzMessage(f *testing.F) {
	one := &coordpb.Demand{Account: &coordpb.Account{Key: "k", Limit: "l"}}
	for i := range uint8(16) {
		for _, m := range []proto.Message{
			&coordpb.AcquireRequest{Key: "k"}, &coordpb.AcquireRequest{Keys: []string{"a", "b"}, Mode: coordpb.Mode_MODE_PERMITS, Permits: 3, Weight: 9},
			&coordpb.BreakRequest{Key: "k", Id: "x", Mode: 9}, &coordpb.TakeRequest{Demands: []*coordpb.Demand{one, one}},
			&coordpb.ChargeRequest{Demand: one}, &coordpb.SettleRequest{Account: one.GetAccount(), Estimated: 1 << 62, Used: -1},
			&coordpb.PeekRequest{Account: &coordpb.Account{Rule: "r", Subject: []string{"a"}}},
		} {
			text, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(i, text)
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, text []byte) {
		k := start(t, "limits: {l: 3/1s}\nrules: [{name: r, subject: user, limits: [2/1s, 3/1h]}]\nserve: {max_wait: 1ms}")
		desc, of := coordpb.Locks_ServiceDesc, any(&locksService{s: k.Server})
		n := int(i) % (len(desc.Methods) + len(coordpb.Limits_ServiceDesc.Methods))
		if n >= len(desc.Methods) {
			n -= len(desc.Methods)
			desc, of = coordpb.Limits_ServiceDesc, &limitsService{s: k.Server}
		}
		read := func(q any) error { return proto.Unmarshal(text, q.(proto.Message)) }
		known := func(ctx context.Context, q any, info *grpc.UnaryServerInfo, do grpc.UnaryHandler) (any, error) {
			a, err := k.unary(ctx, q, info, do)
			if code := status.Code(err); code == codes.Internal || code == codes.Unauthenticated {
				t.Errorf("%s %v: %v", info.FullMethod, q, err)
			}
			return a, err
		}
		a, err := desc.Methods[n].Handler(of, metadata.NewIncomingContext(t.Context(), metadata.Pairs(":authority", "localhost")), read, known)
		if err != nil {
			_, err = proto.Marshal(status.Convert(err).Proto())
		} else {
			_, err = proto.Marshal(a.(proto.Message))
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
