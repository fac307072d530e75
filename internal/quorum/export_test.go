package quorum

import (
	"context"
	"slices"
	"time"
)

// CallBound is how long a call waits for a member, at most.
const CallBound = callBound

// ContendFor is how long contenders that split the votes ask again.
const ContendFor = contendFor

// SetClock makes the clock of b's client ahead, until time has caught up.
func SetClock(b *Backend, ahead time.Duration) { b.tokens.saw(time.Now().Add(ahead).UnixMicro()) }

// Sleep is sleep, for servers that are slow.
func Sleep(ctx context.Context, d time.Duration) bool { return sleep(ctx, d) }

// SilentCalls is how many calls are under way on a member that does not answer.
const SilentCalls = silentCalls

// Seen reports whether b knows what each member calls itself.
func Seen(b *Backend) bool {
	return !slices.ContainsFunc(b.members, func(m *member) bool { return m.runs.server() == "" })
}

// Rank is the rank of a contender that has the vote of b's i-th member alone.
func Rank(b *Backend, i int) int {
	grants := &round[vote]{members: b.members, answers: make([]*result[vote], len(b.members))}
	grants.answers[i] = &result[vote]{from: i}
	return b.rank(grants)
}

// Place is at which place b asks its i-th member.
func Place(b *Backend, i int) int { return slices.Index(inOrder(b.members), i) }
