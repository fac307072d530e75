package memory

import (
	"testing"
	"time"

	"github.com/coordgo/coord/internal/crowd"
)

func TestCrowd(t *testing.T) {
	t.Parallel() // it mostly waits
	crowd.Small.Run(t, crowded)
}

func TestNightlyCrowd(t *testing.T) { crowd.Large.Run(t, crowded) }

func crowded(*testing.T, time.Duration) crowd.Open { return NewStore().Open }
