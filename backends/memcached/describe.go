package memcached

import (
	"context"
	"fmt"
	"maps"

	"github.com/coordgo/coord/driver"
)

var _ driver.Describer = (*backend)(nil)

// told are the settings of "stats settings" that Describe gives.
var told = map[string]bool{"maxbytes": true, "evictions": true, "cas_enabled": true}

// Describe implements driver.Describer: what the servers told when the store was opened,
// settings as one server has them. Behind an application's client the servers cannot be seen.
func (b *backend) Describe(ctx context.Context) (map[string]string, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	return maps.Clone(b.settings), nil
}

// note keeps what one of n servers told.
func (b *backend) note(n int, a about) {
	if b.settings == nil {
		b.settings = map[string]string{"topology": "1 server"}
		if n != 1 {
			b.settings["topology"] = fmt.Sprintf("%d servers", n)
		}
	}
	for name, value := range a.settings {
		if told[name] {
			b.settings[name] = value
		}
	}
}
