package driver

import "context"

// Checker compares how the store is set up with what its locks and limits need, for
// coord doctor. Without it the doctor shows only what it measures itself.
type Checker interface {
	// Check looks at the servers within ctx and changes nothing that lasts. What the
	// store does not tell, or the user may not ask, is a Finding of [LevelSkip]. An error
	// means that no server answered.
	Check(ctx context.Context) ([]Finding, error)
}

// Finding is what [Checker] says of one subject.
type Finding struct {
	Level Level `json:"level"`
	// Name is the subject, in a word or two: "eviction".
	Name string `json:"name"`
	// Text is what was found, short, on one line and never secret.
	Text string `json:"text"`
	// Remedy is what to do about it, where Level is LevelWarn or LevelFail.
	Remedy string `json:"remedy,omitempty"`
}

// Level says how good a [Finding] is.
type Level string

// The levels of findings.
const (
	LevelOK   Level = "ok"   // as it should be
	LevelSkip Level = "skip" // not checked: Finding.Text says why
	LevelWarn Level = "warn" // works until something fails
	LevelFail Level = "fail" // does not work, or loses locks in normal operation
)
