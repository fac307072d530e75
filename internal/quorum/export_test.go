package quorum

import "time"

// Bugs are the defects that tests switch on.
type Bugs = bugs

// CallBound is how long a call waits for a member, at most.
const CallBound = callBound

// OneFor is how long a call waits for the first member alone.
const OneFor = oneFor

// SetBugs breaks b.
func SetBugs(b *Backend, with Bugs) {
	b.bugs = with
	if with.Half {
		b.need = len(b.members) / 2
	}
}

// SetClock makes the clock of b's client ahead, until time has caught up.
func SetClock(b *Backend, ahead time.Duration) { b.tokens.saw(time.Now().Add(ahead).UnixMicro()) }
