//go:build !unix

package conformance

// workerProblem says why workers cannot be had here.
func workerProblem() string { return "processes cannot be frozen on this system" }

func (w *worker) freeze() { w.e.Fatalf("processes cannot be frozen on this system") }
func (w *worker) thaw()   { w.e.Fatalf("processes cannot be frozen on this system") }
