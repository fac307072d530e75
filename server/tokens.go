package server

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/config"
)

// tokensEvery is how often the files of tokens are looked at.
const tokensEvery = 5 * time.Second

// watchTokens takes tokens that change in their files, until ctx ends: the configuration does not change with them. It
// takes what has been the same for two looks, so that a file that is just being written is left alone.
func (s *Server) watchTokens(ctx context.Context) {
	ticker := time.NewTicker(tokensEvery)
	defer ticker.Stop()
	var seen, taken map[string]string // taken is nil: those that there were at the start
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		cfg := s.client.Config()
		if !slices.ContainsFunc(cfg.Serve.Callers, tokenInFile) {
			continue
		}
		now, err := cfg.Tokens(ctx)
		settled := err == nil && maps.Equal(now, seen)
		if settled && !maps.Equal(now, taken) {
			if err = s.Reload(ctx); err == nil {
				taken = now
			}
		}
		if err == nil {
			seen = now
		} else if !failed {
			s.log.Error("the tokens of callers were not taken: those from before stay in force", "error", err)
		}
		failed = err != nil
	}
}

func tokenInFile(c config.Caller) bool { return strings.HasPrefix(string(c.Token), "${file:") }
