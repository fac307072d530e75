package server

import (
	"context"
	"math"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/server/coordpb"
)

// locksService is the operations on locks by gRPC. Its methods are documented in coord.proto.
type locksService struct {
	coordpb.UnimplementedLocksServer
	s *Server
}

func (l *locksService) Acquire(ctx context.Context, q *coordpb.AcquireRequest) (*coordpb.HoldAnswer, error) {
	return operate(ctx, l.s, q, (*Server).acquire, acquireOf(q), heldOf)
}

func (l *locksService) Renew(ctx context.Context, q *coordpb.RenewRequest) (*coordpb.HoldAnswer, error) {
	return operate(ctx, l.s, q, (*Server).renew, &idRequest{q.GetId()}, heldOf)
}

func (l *locksService) Release(ctx context.Context, q *coordpb.ReleaseRequest) (*coordpb.ReleaseAnswer, error) {
	return operate(ctx, l.s, q, (*Server).release, &idRequest{q.GetId()}, func(a *releaseAnswer) *coordpb.ReleaseAnswer {
		return &coordpb.ReleaseAnswer{Freed: a.Freed}
	})
}

func (l *locksService) Inspect(ctx context.Context, q *coordpb.InspectRequest) (*coordpb.HoldersAnswer, error) {
	return operate(ctx, l.s, q, (*Server).inspect, &keyRequest{q.GetKey()}, func(a *holdersAnswer) *coordpb.HoldersAnswer {
		return &coordpb.HoldersAnswer{Holders: mapped(a.Holders, holderOf)}
	})
}

func (l *locksService) List(ctx context.Context, q *coordpb.ListRequest) (*coordpb.ListAnswer, error) {
	return operate(ctx, l.s, q, (*Server).list, &listRequest{q.GetPrefix()}, func(a *listAnswer) *coordpb.ListAnswer {
		return &coordpb.ListAnswer{Keys: mapped(a.Keys, valid), More: a.More}
	})
}

func (l *locksService) Break(ctx context.Context, q *coordpb.BreakRequest) (*coordpb.BreakAnswer, error) {
	asked := &breakRequest{Key: q.GetKey(), ID: q.GetId(), Mode: modeName(q.GetMode()), Now: q.GetNow()}
	return operate(ctx, l.s, q, (*Server).breakHold, asked, func(*breakAnswer) *coordpb.BreakAnswer { return new(coordpb.BreakAnswer) })
}

func (l *locksService) Watch(q *coordpb.WatchRequest, stream grpc.ServerStreamingServer[coordpb.WatchAnswer]) error {
	if err := understood(q); err != nil {
		return err
	}
	c := callerIn(stream.Context())
	if err := c.may(config.Read, q.GetKey()); err != nil {
		return err
	}
	ctx, cancel := l.s.untilDraining(stream.Context())
	defer cancel()
	changes, err := l.s.changes(ctx, q.GetKey(), modeName(q.GetMode()))
	if err != nil {
		return err
	}
	var last error
	for holders, err := range changes {
		if last = err; ctx.Err() != nil {
			break
		}
		if c.gone() {
			return errToken
		}
		if err := stream.Send(changeOf(&change{holders, err})); err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		return last // which stays: a watch of this key cannot work
	}
	return errDraining
}

// operate does an operation for the caller of ctx: q in the words of the operation is asked, and its answer is given back
// in those of gRPC.
func operate[Q, A, P any](ctx context.Context, s *Server, q proto.Message, do func(*Server, context.Context, *caller, *Q) (*A, error), asked *Q, in func(*A) *P) (*P, error) {
	if err := understood(q); err != nil {
		return nil, err
	}
	a, err := do(s, ctx, callerIn(ctx), asked)
	if err != nil {
		return nil, err
	}
	return in(a), nil
}

// understood refuses what a newer client may ask for, and what would not be done.
func understood(q proto.Message) error {
	if strange(q.ProtoReflect()) {
		return invalid("a field that this server does not know")
	}
	return nil
}

// strange reports whether m, or a message in it, has an unknown field.
func strange(m protoreflect.Message) (found bool) {
	found = len(m.GetUnknown()) > 0
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Kind() != protoreflect.MessageKind:
		case f.IsList():
			for i := range v.List().Len() {
				found = found || strange(v.List().Get(i).Message())
			}
		default:
			found = found || strange(v.Message())
		}
		return !found
	})
	return found
}

func acquireOf(q *coordpb.AcquireRequest) *acquireRequest {
	return &acquireRequest{
		Key: q.GetKey(), Keys: q.GetKeys(), TTL: q.GetTtlMs(), Wait: q.GetWaitMs(), Fair: q.GetFair(), Mode: modeName(q.GetMode()),
		Permits: number(q.GetPermits()), Weight: number(q.GetWeight()), Name: q.GetName(), RequestID: q.GetRequestId(),
	}
}

// number is n as an int. What an int does not hold is refused as its greatest is.
func number(n int64) int { return int(max(min(n, math.MaxInt), math.MinInt)) }

// modeName is the mode in JSON, where it has no prefix.
func modeName(m coordpb.Mode) string {
	if m == coordpb.Mode_MODE_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(m.String(), modePrefix))
}

func modeOf(name string) coordpb.Mode {
	return coordpb.Mode(coordpb.Mode_value[modePrefix+strings.ToUpper(name)])
}

const modePrefix = "MODE_"

func heldOf(a *holdAnswer) *coordpb.HoldAnswer {
	return &coordpb.HoldAnswer{
		Id: a.ID, Token: int64(a.Token), RemainingMs: a.Remaining, TtlMs: a.TTL, Draining: a.Draining,
		Keys: mapped(a.Locks, func(l lockAnswer) *coordpb.HeldKey {
			return &coordpb.HeldKey{Key: l.Key, Token: int64(l.Token), Slot: int64(l.Slot)}
		}),
	}
}

func holderOf(h holderAnswer) *coordpb.Holder {
	of := &coordpb.Holder{
		Id: valid(h.ID), Name: valid(h.Name), Pid: int64(h.PID), Mode: modeOf(h.Mode), Token: int64(h.Token), LeftMs: h.Left,
		Waiters: int64(h.Waiters), Weight: h.Weight, Of: h.Of, Slot: int64(h.Slot), Kept: h.Kept,
	}
	if h.Since != nil {
		of.Since = timestamppb.New(*h.Since)
	}
	return of
}

func changeOf(c *change) *coordpb.WatchAnswer {
	if c.err != nil {
		_, p := problemOf(c.err)
		return &coordpb.WatchAnswer{Error: &coordpb.Problem{Code: p.Error.Code, Message: valid(p.Error.Message)}}
	}
	return &coordpb.WatchAnswer{Holders: mapped(c.answer().Holders, holderOf)}
}

// mapped is a list in other words.
func mapped[A, B any](list []A, in func(A) B) []B {
	all := make([]B, len(list))
	for i, one := range list {
		all[i] = in(one)
	}
	return all
}
