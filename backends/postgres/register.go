package postgres

import "github.com/coordgo/coord"

func init() {
	coord.Register("postgres", Open)
	coord.Register("postgresql", Open)
}
