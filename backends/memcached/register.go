package memcached

import "github.com/coordgo/coord"

func init() {
	coord.Register("memcached", Open)
	coord.Register("memcacheds", Open)
}
