package postgres

import "github.com/coordgo/coord/driver"

func init() {
	driver.Register("postgres", Open)
	driver.Register("postgresql", Open)
}
