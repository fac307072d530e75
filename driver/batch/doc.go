// Package batch sends requests that would wait at the server together, for adapters whose store takes several in one round
// trip.
//
// A request is sent at once and by itself while few are under way. Otherwise it joins the next batch, which is sent when an
// earlier request returns. So no request waits for others to come, and under load the round trips are shared.
package batch
