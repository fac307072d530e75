package guide

import (
	"fmt"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
)

// Keys spread over the clusters, and each stays on its own.
func TestClusterOf(t *testing.T) {
	clients := make([]*coord.Client, 3)
	for i := range clients {
		c, err := coord.New(memory.New())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients[i] = c
	}
	keys := make(map[*coord.Client]int)
	for i := range 300 {
		key := fmt.Sprint("order/", i)
		c := clusterOf(clients, key)
		if clusterOf(clients, key) != c {
			t.Fatalf("%s moves", key)
		}
		keys[c]++
	}
	for _, c := range clients {
		if keys[c] < 50 {
			t.Errorf("a cluster has %d of 300 keys", keys[c])
		}
	}
}
