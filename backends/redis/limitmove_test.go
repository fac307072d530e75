package redis

import (
	"testing"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// TestNightlyLimitsWhileTheSlotMoves: limits go on while their slot moves to another master, before
// and after their own keys have moved, those that were used before and those that are new.
func TestNightlyLimitsWhileTheSlotMoves(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, 0, silently)
	b := connectTo(t, clusterClient(c, nil))
	ctx := t.Context()
	used := map[string]int{}
	take := func(stage string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			used[text]++
			taken, err := b.Take(ctx, "{k"+text, limitOf(t, text), []driver.Ask{{Min: 1, N: 1}})
			if err != nil {
				t.Errorf("%s, %s: %v", stage, text, err)
			} else if taken.Remaining != 100-used[text] {
				t.Errorf("%s, %s: %d remain, want %d", stage, text, taken.Remaining, 100-used[text])
			}
		}
		if err := b.Reset(ctx, "k", limitOf(t, "1/1h")); err != nil {
			t.Errorf("%s, Reset: %v", stage, err)
		}
	}
	old := []string{"100/24h burst=100", "100/24h", "100/24h fixed-window"}
	take("before", old...)
	slot := c.RedisSlot(lockKey("k"))
	move := c.BeginRedisMove(slot, otherMaster(c, slot))
	take("when it begins", append(old, "100/25h burst=100", "100/25h", "100/25h fixed-window")...)
	move.Keys()
	take("on its way", append(old, "100/26h burst=100", "100/26h", "100/26h fixed-window")...)
	move.End()
	take("after it", old...)
}
