package envoy

import (
	"context"
	"time"
)

// Watch takes the files whenever their content has changed, and calls report with nil, or with why they were
// refused: the rules of before stay in force then. What was counted stays counted. It looks once in each period, and
// takes a change when it has been the same for two looks, so that files that are just being written are left alone.
// It compares contents: a link that leads elsewhere is seen too. Files that cannot be read are reported once, until
// they can. Watch returns when ctx ends. Call it once. It panics if period is not above zero.
func (s *Service) Watch(ctx context.Context, period time.Duration, report func(error)) {
	w := watch{service: s, report: report, seen: s.sum, tried: s.sum}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.look()
		}
	}
}

// watch is what Watch has seen.
type watch struct {
	service *Service
	report  func(error)
	seen    sum  // of the last look
	tried   sum  // of what was taken or refused last
	failed  bool // to read, at the last look
}

func (w *watch) look() {
	content, err := readFiles(w.service.cfg.Files)
	if err != nil {
		if !w.failed {
			w.service.stats.load(err)
			w.report(err)
		}
		w.failed = true
		return
	}
	w.failed = false
	now := sumOf(content)
	settled := now == w.seen
	if w.seen = now; settled && now != w.tried {
		w.tried = now
		w.report(w.service.take(content))
	}
}
