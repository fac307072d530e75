// Package limits is the arithmetic of limits: pure functions of state, time
// and ask, in integers. Every store that can run Go beside its state runs
// this code; Redis runs a port of it that a differential test proves equal.
package limits
