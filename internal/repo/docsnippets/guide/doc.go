// Package guide is the code of the pages that lead through coord: locks, limits,
// fencing, configuration. It is compiled, and its tests run what it says.
package guide
