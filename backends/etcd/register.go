package etcd

import "github.com/coordgo/coord"

func init() {
	coord.Register("etcd", Open)
	coord.Register("etcds", Open)
}
