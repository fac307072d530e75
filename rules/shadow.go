package rules

import (
	"context"

	"github.com/coordgo/coord/internal/shadow"
)

// Shadow is what a rule in shadow mode has decided about a request that was admitted.
type Shadow struct {
	// Rule is its name.
	Rule string
	// Decision is what would have come of the request if no other rule were there. It has no Shadow.
	Decision
	// Err is the error with which the request would have ended: there is no decision then.
	Err error
}

// Denied reports whether the rule would have denied the request.
func (s *Shadow) Denied() bool { return s.Err == nil && !s.Allowed }

// decide takes what the request counts against. The limits of one rule are taken together, and those of others apart,
// so that a limit that denies does not hide what others would do.
func (s *Shadow) decide(ctx context.Context, limiter Limiter) {
	if s.Err == nil {
		s.Decision, s.Err = take(shadow.With(ctx), limiter, s.Bounds)
	}
}
