package file

import "github.com/coordgo/coord"

func init() { coord.Register("file", Open) }
