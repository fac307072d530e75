package zookeeper

import "github.com/coordgo/coord"

func init() {
	coord.Register("zookeeper", Open)
	coord.Register("zookeepers", Open)
}
