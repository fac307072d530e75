//go:build unix

package conformance

import "syscall"

// workerProblem says why workers cannot be had here, "" if they can.
func workerProblem() string {
	if !workerReady.Load() {
		return "the harness has a WorkerURL, but this binary never calls conformance.WorkerMain"
	}
	return ""
}

// freeze stops the process where it stands, thaw lets it go on.
func (w *worker) freeze() { w.e.noError(w.cmd.Process.Signal(syscall.SIGSTOP), "SIGSTOP to a worker") }

func (w *worker) thaw() { w.e.noError(w.cmd.Process.Signal(syscall.SIGCONT), "SIGCONT to a worker") }
