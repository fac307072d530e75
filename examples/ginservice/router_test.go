package ginservice

import (
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/examples/internal/routertest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	goleak.VerifyTestMain(m)
}

func TestRouter(t *testing.T) { routertest.Check(t, routertest.Of(Router)) }
