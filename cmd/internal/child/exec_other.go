//go:build !unix

package child

import "time"

// Become runs cmd and gives its exit status.
func Become(cmd Command, sigs *Signals) (int, error) {
	code, _, err := Run(cmd, nil, forever{}, Limits{}, sigs, func(error) {})
	return code, err
}

// forever is a lock that is never lost.
type forever struct{}

func (forever) Done() <-chan struct{} { return nil }
func (forever) Deadline() time.Time   { return time.Now().Add(24 * time.Hour) }
func (forever) TTL() time.Duration    { return 24 * time.Hour }
func (forever) Err() error            { return nil }
