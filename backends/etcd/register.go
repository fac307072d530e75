package etcd

import "github.com/coordgo/coord/driver"

func init() {
	driver.Register("etcd", Open)
	driver.Register("etcds", Open)
}
