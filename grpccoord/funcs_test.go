package grpccoord

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord/internal/middleware/middlewaretest"
	"github.com/coordgo/coord/rules"
)

// Calls are counted by what a function of the program returns, and by a combination with metadata.
func TestFuncs(t *testing.T) {
	c := serve(t, Limits{
		Limiter: middlewaretest.Client(t),
		Rules:   middlewaretest.Chain(t, one("all", rules.Combine(rules.Func("shop"), rules.Header("x-tenant")), year(1))),
		Funcs: map[string]func(context.Context) string{"shop": func(ctx context.Context) string {
			return metadata.ValueFromIncomingContext(ctx, "shop")[0]
		}},
	})
	for _, tc := range []struct {
		shop, tenant string
		code         codes.Code
	}{
		{"a", "x", codes.OK},
		{"b", "x", codes.OK},
		{"a", "y", codes.OK},
		{"a", "x", codes.ResourceExhausted},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "shop", tc.shop, "x-tenant", tc.tenant)
		if err := check(ctx, c); status.Code(err) != tc.code {
			t.Errorf("%s of %s: %v: want %v", tc.shop, tc.tenant, err, tc.code)
		}
	}
}

// A call that needs what the program does not look up shares no account with others.
func TestMissingFunc(t *testing.T) {
	for _, subject := range []rules.Subject{rules.Func("shop"), rules.User()} {
		c := serve(t, Limits{Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(t, one("all", subject, year(1)))})
		if err := check(t.Context(), c); status.Code(err) != codes.Internal {
			t.Errorf("by %s: %v: want Internal", subject.Kind, err)
		}
	}
}
