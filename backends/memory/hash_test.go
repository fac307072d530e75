package memory

import (
	"fmt"
	"strings"
	"testing"
)

// Keys that differ anywhere spread over the shards: none gets more than twice
// its share.
func TestIndexSpreadsKeys(t *testing.T) {
	for _, format := range []string{
		"%d", "k%d", "client/%d", "%d/client", "orders/%d/items", "%08d", "%d:api/v1/limits",
		strings.Repeat("p", 20) + "/%d", "%d" + strings.Repeat("s", 40),
	} {
		var tab table[slot]
		tab.init(slotIdle)
		const keys = 64_000
		var count [shards]int
		for i := range keys {
			count[tab.index(fmt.Sprintf(format, i))]++
		}
		for i, n := range count {
			if n > 2*keys/shards || n < keys/shards/2 {
				t.Errorf("%q: shard %d has %d of %d keys: want about %d", format, i, n, keys, keys/shards)
			}
		}
	}
}

// Every length of key has an index, also the empty key, which is refused later.
func TestIndexOfAnyLength(t *testing.T) {
	var tab table[slot]
	tab.init(slotIdle)
	for n := range 100 {
		key := strings.Repeat("x", n)
		if i := tab.index(key); i < 0 || i >= shards || i != tab.index(strings.Clone(key)) {
			t.Errorf("%d bytes: shard %d, then %d: want the same one, below %d", n, i, tab.index(key), shards)
		}
	}
}
