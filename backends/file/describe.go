package file

import (
	"context"

	"github.com/coordgo/coord/driver"
)

var _ driver.Describer = (*store)(nil)

// Describe implements driver.Describer.
func (s *store) Describe(context.Context) (map[string]string, error) {
	settings := map[string]string{"topology": "one directory"}
	if name := fsName(s.dir); name != "" {
		settings["filesystem"] = name
	}
	return settings, nil
}
