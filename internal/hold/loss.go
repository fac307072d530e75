package hold

// lose ends a hold that t has lost. What may still be at the store is withdrawn
// after Done has closed, so that the key is free as soon as it can be. If t has handed
// the hold off meanwhile, the clocks were looked at then, and nothing is lost. A nil t is
// whichever has it.
func (m *Manager) lose(h *hold, t *tenure, cause error) {
	if t = h.end(t, cause, lossOf(cause)); t != nil {
		m.afterLoss(h, t)
	}
}

// afterLoss is what follows once Done of the lost tenure has closed.
func (m *Manager) afterLoss(h *hold, t *tenure) {
	h.tellLoss(t)
	m.sched.remove(h)
	m.cleanUp(h)
	m.leaveSlot(h)
}

// gone ends a hold that the store has said it does not have, whoever has it here.
func (m *Manager) gone(h *hold, cause error) {
	t := h.end(nil, cause, Revoked)
	if t == nil {
		return
	}
	h.tellLoss(t)
	m.sched.remove(h)
	m.cleanUpUnknown(h)
	m.leaveSlot(h)
}
