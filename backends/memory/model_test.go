package memory

import (
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/internal/limitmodel"
)

// TestLimitsKeepToTheModel: a random walk finds nothing that the contract rules out.
func TestLimitsKeepToTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := Open(t.Context(), &url.URL{Scheme: "memory", Host: t.Name()})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		limitmodel.Test(t, limitmodel.Walk{
			Store: b, Now: time.Now, Pass: time.Sleep, Still: true, Per: time.Second,
		}, 100_000)
	})
}
