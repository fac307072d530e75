package hold

// Stats is how much a Manager has.
type Stats struct {
	Keys      int // those with a hold or an attempt
	Attempts  int // those that have a place
	Asking    int // attempts whose loss the store may tell
	Holds     int // those not given back
	Tasks     int // ids that the janitor removes, or is about to
	Scheduled int // holds that wait for their renewal or deadline
}

// Stats counts what the Manager has.
func (m *Manager) Stats() (s Stats) {
	m.mu.Lock()
	s.Keys, s.Attempts, s.Asking, s.Holds = len(m.keys), m.attempts, len(m.asking), len(m.holds)
	m.mu.Unlock()
	s.Tasks = m.janitor.size()
	s.Scheduled = m.sched.size()
	return s
}

// Watchers counts the contexts that end with t.
func (t *Tenure) Watchers() int {
	t.h.m.mu.Lock()
	defer t.h.m.mu.Unlock()
	return len(t.watchers)
}
