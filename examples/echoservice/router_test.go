package echoservice

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/coordgo/coord/examples/internal/routertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRouter(t *testing.T) { routertest.Check(t, routertest.Of(Router)) }
