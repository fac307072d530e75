package file

import "github.com/coordgo/coord/driver"

func init() { driver.Register("file", Open) }
