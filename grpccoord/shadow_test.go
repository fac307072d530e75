package grpccoord

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/middleware/middlewaretest"
	"github.com/coordgo/coord/internal/testlog"
	"github.com/coordgo/coord/rules"
)

// A call that a rule in shadow mode would deny is served, and the log or the program is told.
func TestLimitsShadow(t *testing.T) {
	var out testlog.Buffer
	rule := one("tried", rules.Everyone(), coord.PerHour(1))
	rule.Shadow = true
	limits := Limits{Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(t, rule), Log: out.Logger()}
	call := func(m grpc.UnaryServerInterceptor) {
		t.Helper()
		served := false
		_, err := m(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, func(context.Context, any) (any, error) {
			served = true
			return nil, nil
		})
		if err != nil || !served {
			t.Fatalf("served: %v, %v", served, err)
		}
	}
	logging := limits.Unary()
	if call(logging); out.String() != "" {
		t.Errorf("logged %q", out.String())
	}
	call(logging)
	logged := out.String()
	if !strings.Contains(logged, "would deny requests") || !strings.Contains(logged, "rule=tried") {
		t.Errorf("logged %q", logged)
	}
	var told []string
	limits.Shadow = func(_ context.Context, s *rules.Shadow) { told = append(told, s.Rule) }
	if call(limits.Unary()); len(told) != 1 || told[0] != "tried" || out.String() != logged {
		t.Errorf("told %q, logged %q", told, out.String())
	}
}

// A cookie or a variable of the path is of HTTP: calls have no value, and share one account.
func TestLimitsOfHTTPAlone(t *testing.T) {
	cookie, path := one("cookie", rules.Cookie("session"), coord.PerHour(1)), one("path", rules.PathValue("id"), coord.PerHour(1))
	path.Match.Path = "/orders/{id}"
	m := Limits{Limiter: middlewaretest.Client(t), Rules: middlewaretest.Chain(t, path, cookie)}.Unary()
	for i := range 2 {
		_, err := m(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, func(context.Context, any) (any, error) { return nil, nil })
		if i == 0 && err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if _, violated := wantDenied(t, err); len(violated) != 1 || !strings.HasPrefix(violated[0], "limit:cookie ") {
				t.Errorf("violated: %q", violated)
			}
		}
	}
}
