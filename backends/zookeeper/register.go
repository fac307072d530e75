package zookeeper

import "github.com/coordgo/coord/driver"

func init() {
	driver.Register("zookeeper", Open)
	driver.Register("zookeepers", Open)
}
