package redis

import "github.com/coordgo/coord/driver"

func init() {
	for _, scheme := range []string{"redis", "rediss", "valkey", "valkeys"} {
		for _, kind := range []string{"", "+sentinel", "+cluster"} {
			driver.Register(scheme+kind, Open)
		}
	}
}
