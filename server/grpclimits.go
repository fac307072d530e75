package server

import (
	"context"

	"github.com/coordgo/coord/server/coordpb"
)

// limitsService is the operations on limits by gRPC. Its methods are documented in coord.proto.
type limitsService struct {
	coordpb.UnimplementedLimitsServer
	s *Server
}

func (l *limitsService) Take(ctx context.Context, q *coordpb.TakeRequest) (*coordpb.TakeAnswer, error) {
	return operate(ctx, l.s, q, (*Server).take, takeOf(q), func(a *takeAnswer) *coordpb.TakeAnswer {
		return &coordpb.TakeAnswer{
			Allowed: a.Allowed, Granted: int64(a.Granted), RetryAfterMs: a.RetryAfter, Degraded: valid(a.Degraded), Limits: mapped(a.Limits, stateOf),
		}
	})
}

func (l *limitsService) Peek(ctx context.Context, q *coordpb.PeekRequest) (*coordpb.LimitsAnswer, error) {
	return operate(ctx, l.s, q, (*Server).peek, &oneAccount{account(q.GetAccount())}, statesOf)
}

func (l *limitsService) Reset(ctx context.Context, q *coordpb.ResetRequest) (*coordpb.LimitsAnswer, error) {
	return operate(ctx, l.s, q, (*Server).reset, &oneAccount{account(q.GetAccount())}, statesOf)
}

func (l *limitsService) Charge(ctx context.Context, q *coordpb.ChargeRequest) (*coordpb.LimitsAnswer, error) {
	asked := demand(q.GetDemand())
	return operate(ctx, l.s, q, (*Server).charge, &asked, statesOf)
}

func (l *limitsService) Settle(ctx context.Context, q *coordpb.SettleRequest) (*coordpb.LimitsAnswer, error) {
	asked := &settleRequest{account(q.GetAccount()), number(q.GetEstimated()), number(q.GetUsed())}
	return operate(ctx, l.s, q, (*Server).settle, asked, statesOf)
}

func (l *limitsService) Reserve(ctx context.Context, q *coordpb.ReserveRequest) (*coordpb.ReserveAnswer, error) {
	asked := demand(q.GetDemand())
	return operate(ctx, l.s, q, (*Server).reserve, &asked, func(a *reserveAnswer) *coordpb.ReserveAnswer {
		return &coordpb.ReserveAnswer{Id: a.ID, DelayMs: a.Delay}
	})
}

func (l *limitsService) Cancel(ctx context.Context, q *coordpb.CancelRequest) (*coordpb.CancelAnswer, error) {
	return operate(ctx, l.s, q, (*Server).cancel, &idRequest{q.GetId()}, func(*cancelAnswer) *coordpb.CancelAnswer { return new(coordpb.CancelAnswer) })
}

func account(a *coordpb.Account) accountOf {
	return accountOf{Key: a.GetKey(), Limit: a.GetLimit(), Rate: a.GetRate(), Rule: a.GetRule(), Subject: a.GetSubject()}
}

func demand(d *coordpb.Demand) demandOf {
	of := demandOf{accountOf: account(d.GetAccount())}
	if d != nil && d.N != nil {
		n := number(d.GetN())
		of.N = &n
	}
	return of
}

func takeOf(q *coordpb.TakeRequest) *takeRequest {
	t := &takeRequest{AtMost: q.GetAtMost(), Wait: q.GetWaitMs()}
	if all := mapped(q.GetDemands(), demand); len(all) == 1 {
		t.demandOf = all[0]
	} else {
		t.All = all
	}
	return t
}

func statesOf(a *limitsAnswer) *coordpb.LimitsAnswer {
	return &coordpb.LimitsAnswer{Limits: mapped(a.Limits, stateOf)}
}

func stateOf(l limitAnswer) *coordpb.LimitState {
	return &coordpb.LimitState{
		Key: l.Key, Limit: l.Limit, Allowed: l.Allowed, Granted: int64(l.Granted), Remaining: int64(l.Remaining),
		RetryAfterMs: l.RetryAfter, ResetAfterMs: l.ResetAfter,
	}
}
