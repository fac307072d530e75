package guide

import (
	"hash/fnv"

	"github.com/coordgo/coord"
)

// clusterOf gives the client of the cluster that a key lives on.
func clusterOf(clients []*coord.Client, key string) *coord.Client {
	h := fnv.New32a()
	h.Write([]byte(key))
	return clients[h.Sum32()%uint32(len(clients))]
}
