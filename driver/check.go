package driver

// Finding is what Check of an [Operator] says of one subject.
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
