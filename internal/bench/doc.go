// Package bench measures locks and limits: how fast they are, how long a waiter waits, how
// fairly a key goes round, and whether two ever held it at once. It knows nothing of coord:
// what it measures are a Locker and a Limiter of its own, so that coord-conform bench and the
// comparison with other libraries share every loop, and no library is measured by
// another yardstick.
package bench
