package redis

import "github.com/coordgo/coord"

func init() {
	for _, scheme := range []string{"redis", "redis+sentinel", "redis+cluster"} {
		coord.Register(scheme, Open)
		coord.Register("rediss"+scheme[len("redis"):], Open)
	}
}
