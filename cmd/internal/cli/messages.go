package cli

import (
	"io"
	"time"
)

// messages is standard error. A write never waits for the reader: a lock has to be renewed and a command
// has to get its signals, even if standard error is a full pipe that nobody reads. It is safe for
// concurrent use.
type messages struct {
	queue chan message
	quit  chan struct{}
}

// message is a text, or with done a question: is everything before it written?
type message struct {
	text []byte
	done chan<- struct{}
}

// maxMessages is how many texts wait for the reader. More are dropped.
const maxMessages = 1024

// flushTime is how long the end of the run waits for the reader.
const flushTime = time.Second

func newMessages(w io.Writer) *messages {
	m := &messages{make(chan message, maxMessages), make(chan struct{})}
	go m.write(w)
	return m
}

// write runs until the end.
func (m *messages) write(w io.Writer) {
	for {
		select {
		case <-m.quit:
			return
		case next := <-m.queue:
			if next.done != nil {
				close(next.done)
				continue
			}
			_, _ = w.Write(next.text) // there is nowhere to report it
		}
	}
}

// end is flush at the end of the run. What comes after it is dropped.
func (m *messages) end() {
	m.flush()
	close(m.quit)
}

// Write queues a text. It never fails.
func (m *messages) Write(text []byte) (int, error) {
	select {
	case m.queue <- message{text: append([]byte(nil), text...)}:
	default: // the reader is too far behind
	}
	return len(text), nil
}

// flush waits until everything is written, at most for flushTime.
func (m *messages) flush() {
	enough := time.NewTimer(flushTime)
	defer enough.Stop()
	done := make(chan struct{})
	select {
	case m.queue <- message{done: done}:
	case <-enough.C:
		return
	}
	select {
	case <-done:
	case <-enough.C:
	}
}
