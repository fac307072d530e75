package memcached

import (
	"context"
	"fmt"
)

// described are the settings of "stats settings" that Describe gives.
var described = map[string]bool{"maxbytes": true, "evictions": true, "cas_enabled": true}

// Describe implements driver.Operator: what the servers told when they were probed,
// settings as one server has them. Behind an application's client the servers cannot be seen.
func (b *backend) Describe(ctx context.Context) (map[string]string, error) {
	if err := b.calls.Ready(ctx); err != nil || b.pools == nil {
		return nil, err
	}
	settings := map[string]string{"topology": "1 server"}
	if n := len(b.pools.servers); n != 1 {
		settings["topology"] = fmt.Sprintf("%d servers", n)
	}
	for _, s := range b.pools.servers {
		told := b.pools.byAddr[s.addr].told.Load()
		if told == nil {
			continue // it was away when the store was opened, and was not used since
		}
		for name, value := range told.settings {
			if described[name] {
				settings[name] = value
			}
		}
	}
	return settings, nil
}
