package redis

import "github.com/coordgo/coord"

func init() {
	coord.Register("redis", Open)
	coord.Register("rediss", Open)
}
