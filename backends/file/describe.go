package file

import (
	"context"
)

// Describe implements driver.Operator.
func (s *store) Describe(context.Context) (map[string]string, error) {
	settings := map[string]string{"topology": "one directory"}
	if name := fsName(s.dir); name != "" {
		settings["filesystem"] = name
	}
	return settings, nil
}
