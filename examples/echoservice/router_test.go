package echoservice

import (
	"context"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/routertest"
	"github.com/coordgo/coord/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRouter(t *testing.T) {
	routertest.Check(t, func(client *coord.Client, chain *rules.Chain, create func(context.Context) error,
		change func(context.Context, string) error,
	) func(*http.Request) (*http.Response, error) {
		return routertest.Handler(Router(client, chain, create, change))
	})
}
