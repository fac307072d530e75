package hold

// slot is one key: who wants it of this client, and the hold that the client has of it. Manager.mu guards the
// fields. A slot exists while it is of use.
type slot struct {
	queue  queue[*waiter]
	hold   *hold   // the hold that this client has, nil if none
	warned *tenure // the one about whose long wait a warning was logged

	refusal refusal // of the leader
}

// slotFor finds or makes the slot of key. Manager.mu is held.
func (m *Manager) slotFor(key string) *slot {
	s := m.slots[key]
	if s == nil {
		s = &slot{}
		m.slots[key] = s
	}
	return s
}

// next promotes the first in the queue when nobody holds or contends. Manager.mu is held.
func (m *Manager) next(key string, s *slot) {
	switch {
	case s.hold != nil || s.queue.leader != nil:
	case s.queue.first != nil:
		s.queue.promote()
	case s.queue.empty():
		delete(m.slots, key)
	}
}

// vacate takes a out of s, its slot. Manager.mu is held.
func (m *Manager) vacate(s *slot, a *waiter) {
	a.placed = false
	delete(m.asking, a.id)
	m.attempts--
	m.noteIdle()
	s.queue.leave(&a.ticket)
	m.next(a.spec.Key, s)
}

// leaveSlot opens the slot of a hold that is over to the next in the queue.
func (m *Manager) leaveSlot(h *hold) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !h.inSlot {
		return
	}
	h.inSlot = false
	delete(m.holds, h.by.id)
	m.noteIdle()
	key := h.by.spec.Key
	if s := m.slots[key]; s != nil && s.hold == h { // else the key was granted to a fair attempt meanwhile
		s.hold = nil
		m.next(key, s)
	}
}

// heldBy is the id of the hold that this client has, "" without one. Manager.mu is held.
func (s *slot) heldBy() string {
	if s.hold == nil {
		return ""
	}
	return s.hold.by.id
}
