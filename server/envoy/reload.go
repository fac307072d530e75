package envoy

import (
	"context"
	"time"

	"github.com/coordgo/coord/server/internal/settle"
)

// Watch takes the files whenever their content has changed, and calls report with nil, or with why they were
// refused: the rules of before stay in force then. What was counted stays counted. It looks once in each period, and
// takes a change when it has been the same for two looks, so that files that are just being written are left alone.
// It compares contents: a link that leads elsewhere is seen too. Files that cannot be read are reported once, until
// they can. Watch returns when ctx ends. Call it once. It panics if period is not above zero.
func (s *Service) Watch(ctx context.Context, period time.Duration, report func(error)) {
	w := settle.From(s.sum)
	settle.Every(ctx, period, func() {
		content, err := readFiles(s.cfg.Files)
		news, err := w.Look(sumOf(content), err, s.sum, func() error { return s.take(content) })
		if news {
			s.stats.load(err)
			report(err)
		}
	})
}
