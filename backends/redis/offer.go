package redis

import "time"

// For how long the server offers a lock to a client. During an offer all others wait. A client that answers too late
// waits for another offer.
const (
	offerLeast = 50 * time.Millisecond  // for a client near the server that gets no processor time
	offerFirst = 200 * time.Millisecond // is added while the latency is not known
	offerMost  = time.Second
)

// measured updates the latency. A lower one counts at once, a higher one little by little: the server or this
// process may have been frozen.
func (ws *waiters) measured(took time.Duration) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.latency == 0 || took < ws.latency {
		ws.latency = took
	} else {
		ws.latency += (took - ws.latency) / 8
	}
}

// offerTime is twice the latency, for the offer and the answer, and a little more.
func (ws *waiters) offerTime() time.Duration {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.latency == 0 {
		return ws.least + offerFirst
	}
	return ws.least + min(2*ws.latency, offerMost)
}
