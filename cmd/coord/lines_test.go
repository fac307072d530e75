package main_test

import (
	"bufio"
	"io"
	"time"
)

// patience is how long a test waits for what has to come.
const patience = time.Minute

// readLines sends the lines of r, and closes the channel at its end.
func readLines(r io.Reader, lines chan<- string) {
	defer close(lines)
	for s := bufio.NewScanner(r); s.Scan(); {
		lines <- s.Text()
	}
}

// eventually asks until done says so; false if it never does.
func eventually(done func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if done() {
			return true
		}
	}
	return false
}
