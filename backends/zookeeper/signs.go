package zookeeper

import "time"

// sign is a sign of life: a request that a server has answered.
type sign struct{ sent, answered time.Time }

// signs are the latest signs of life of one session.
type signs struct {
	session int64
	opened  time.Time // when its connection was asked for
	list    []sign
}

// lease is how long a session certainly lives from the instant that certain gives.
//
// A server on its own counts from each request. In an ensemble the leader ends sessions, and a
// follower tells it of signs of life twice a tick only; a session lasts two ticks at least.
// What a follower knows and has not told is lost with it: a quarter of the session
// at most is therefore not counted on.
func (b *backend) lease() time.Duration {
	t := b.timeout()
	if !b.alone.Load() {
		t -= t / 4
	}
	return t
}

// certain is the instant from which a session certainly lives for a lease, after a
// write that was sent at sent and acknowledged.
//
// A follower that dies before it tells of that write takes with it what else it was told in
// the last quarter of the session. The leader then counts from the sign of life before,
// so that one is what lasts a whole timeout. If we know of none, it is a ping: the library sends
// one in every third of the timeout. A little is added for its way.
//
// The leader itself opens and resumes sessions: it knows of that at once. It was the leader then, if a
// write on the same connection is acknowledged later.
func (b *backend) certain(session int64, sent time.Time) time.Time {
	if b.alone.Load() {
		return sent
	}
	t := b.timeout()
	since := sent.Add(-t / 3).Add(-t / 24)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.signs.session != session {
		return since
	}
	if from := b.signs.opened.Add(t / 4); from.After(since) && !b.signs.opened.After(sent) {
		since = from
	}
	known := sent.Add(-t / 4) // what was answered by then the leader knows
	for _, s := range b.signs.list {
		if from := s.sent.Add(t / 4); !s.answered.After(known) && from.After(since) {
			since = from
		}
	}
	if since.After(sent) {
		return sent
	}
	return since
}

// opened notes that a connection with the session was asked for at sent, and is there.
func (b *backend) opened(session int64, sent time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.signs.session != session {
		b.signs = signs{session: session}
	}
	b.signs.opened = sent
}

// signsKept is how many signs of life are remembered for each timeout.
const signsKept = 32

// lives notes a sign of life, sent at sent, that the leader has acknowledged now.
func (b *backend) lives(session int64, sent time.Time) {
	if b.alone.Load() || b.conn.SessionID() != session {
		return
	}
	t, now := b.timeout(), time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.signs.session != session {
		b.signs = signs{session: session}
	}
	list := b.signs.list
	if n := len(list); n > 0 && now.Sub(list[n-1].answered) < t/signsKept {
		return
	}
	for len(list) > 0 && now.Sub(list[0].answered) > t {
		list = list[1:]
	}
	b.signs.list = append(list, sign{sent, now})
}

// lastSign is when the last sign of life of a session was sent, as far as noted.
func (b *backend) lastSign(session int64) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.signs.list); n > 0 && b.signs.session == session {
		return b.signs.list[n-1].sent
	}
	return time.Time{}
}
