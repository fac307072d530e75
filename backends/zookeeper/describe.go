package zookeeper

import (
	"context"
)

// Describe implements driver.Operator. The server may not want to tell its mode.
func (b *backend) Describe(ctx context.Context) (map[string]string, error) {
	if _, err := b.await(ctx); err != nil {
		return nil, err
	}
	settings := map[string]string{"session timeout": b.timeout().String()}
	if _, mode := b.about(ctx); mode != "" && mode != standalone {
		settings["topology"] = "ensemble, by a " + mode
	} else if mode != "" {
		settings["topology"] = mode
	}
	return settings, nil
}
