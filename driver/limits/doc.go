// Package limits is the arithmetic of limits: pure functions of state, time
// and ask, in integers. Every store that can run Go beside its state runs
// this code; Redis runs a port of it that a differential test proves equal.
//
// # Time
//
// Times are Unix microseconds on the clock of whoever keeps the state. They
// never go back: a call at an earlier time than the last grant counts as made
// at the time of that grant, and the durations it answers include the wait
// until the clock has caught up.
//
// # Windows
//
// Time is cut into sub-windows of width ceil(Per/K) that are aligned to the
// Unix epoch, K being [driver.SubWindows]. A grant is counted in the current
// one, and the sum over it and the K before it never exceeds Rate. Any period
// of length Per touches at most those K+1, so that no such period ever holds
// more than Rate. A fixed window is the same with one sub-window of width Per
// and none before it.
//
// # Token bucket
//
// The bucket is kept as what is missing from it: a debt, in credits so small
// that one permit and the refill of one microsecond are both whole numbers of
// them ([driver.Limit.Refill]). Nothing is ever rounded in favour of the caller
// and nothing drifts. Buckets of different rates are different states.
//
// The debt is that of all grants, whatever burst each was made by. A smaller burst
// sees no more of it than itself, plus what reservations that are not due yet, and
// charges that are not repaid, have taken beyond it, as of the last grant of another. What is stored is the whole:
// were it capped, a larger burst would be full again after each grant of a smaller
// one. So each limit keeps its own bound, and all of a rate together that of the
// largest burst.
//
// All stored numbers and products stay below 2^53, so that a port to float64
// is exact.
package limits
