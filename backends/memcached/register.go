package memcached

import "github.com/coordgo/coord/driver"

func init() {
	driver.Register("memcached", Open)
	driver.Register("memcacheds", Open)
}
