package redis

import "github.com/coordgo/coord"

func init() {
	for _, scheme := range []string{"redis", "rediss", "valkey", "valkeys"} {
		for _, kind := range []string{"", "+sentinel", "+cluster"} {
			coord.Register(scheme+kind, Open)
		}
	}
}
