package redis

import (
	"fmt"
	"slices"
	"strings"
)

// poll is what the sentinels answered to one question.
type poll struct {
	configured int // sentinels that were asked
	views      []view
	errs       []error // of those that did not answer
	known      int     // sentinels there are, as far as one of them knows
}

func (p *poll) add(a sentinelAnswer) {
	if a.err != nil {
		p.errs = append(p.errs, fmt.Errorf("sentinel %s: %w", a.peer.addr, a.err))
		return
	}
	p.views = append(p.views, a.view)
	p.known = max(p.known, a.others+1)
}

// String is for errors and for coord doctor.
func (p poll) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d answer", len(p.views), p.configured)
	for _, v := range p.views {
		fmt.Fprintf(&b, ", %s with epoch %d", v.addr, v.epoch)
	}
	for _, err := range p.errs {
		fmt.Fprintf(&b, "; %v", err)
	}
	if p.known > p.configured {
		fmt.Fprintf(&b, "; there are %d: give the URL the addresses of all", p.known)
	}
	return b.String()
}

// healthy: all answer, they name one master, and there are no others.
func (p poll) healthy() bool {
	return len(p.views) == p.configured && p.known <= p.configured &&
		!slices.ContainsFunc(p.views, func(v view) bool { return v.addr != p.views[0].addr })
}

// describe asks the sentinels who is the master.
func (r *resolver) describe() string { return r.poll().String() }

// poll asks all sentinels.
func (r *resolver) poll() poll {
	all, answers := poll{configured: len(r.peers)}, r.askAll()
	for range r.peers {
		all.add(<-answers)
	}
	return all
}
