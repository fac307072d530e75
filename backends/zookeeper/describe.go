package zookeeper

import (
	"context"
	"fmt"
	"strings"
)

// Describe implements driver.Operator. The server may not want to tell its mode.
func (b *backend) Describe(ctx context.Context) (map[string]string, error) {
	if _, err := b.await(ctx); err != nil {
		return nil, err
	}
	settings := map[string]string{"session timeout": b.timeout().String()}
	text, err := b.ask(ctx, "srvr")
	if err != nil {
		return settings, nil
	}
	if _, rest, ok := strings.Cut(text, "Mode: "); ok {
		mode, _, _ := strings.Cut(rest, "\n")
		if mode = strings.TrimSpace(mode); mode != "standalone" {
			mode = fmt.Sprintf("ensemble, by a %s", mode)
		}
		settings["topology"] = mode
	}
	return settings, nil
}
