package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/server/internal/settle"
)

// tokensEvery is how often the files of tokens are looked at.
const tokensEvery = 5 * time.Second

// watchTokens takes tokens that change in their files, until ctx ends: the configuration does not change with them. What
// it cannot take leaves those from before.
func (s *Server) watchTokens(ctx context.Context) {
	w := settle.From(s.callers.inForce())
	settle.Every(ctx, tokensEvery, func() {
		s.reloading.Lock()
		defer s.reloading.Unlock()
		cfg := s.client.Config()
		if !slices.ContainsFunc(cfg.Serve.Callers, tokenInFile) {
			return
		}
		tokens, err := cfg.Tokens(ctx)
		news, err := w.Look(sumOfTokens(tokens), err, s.callers.inForce(), func() error { return s.callers.take(cfg, tokens) })
		switch {
		case news && err != nil:
			s.log.Error("the tokens of callers were not taken: those from before stay in force", "error", err)
		case news:
			s.log.Info("the tokens of callers were taken")
		}
	})
}

// sumOfTokens is another one for other tokens.
func sumOfTokens(tokens map[string]string) sum { return sumOf(fmt.Sprint(tokens)) } // fmt sorts a map

func tokenInFile(c config.Caller) bool { return strings.HasPrefix(string(c.Token), "${file:") }
