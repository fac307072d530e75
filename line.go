package coord

// line is a slot's queue: a list through the attempts themselves, so that one leaves
// from anywhere in constant time. Client.mu guards it.
type line struct{ first, last *attempt }

func (q *line) push(a *attempt) {
	a.ahead = q.last
	if q.last == nil {
		q.first = a
	} else {
		q.last.behind = a
	}
	q.last, a.lines = a, q
}

// pushFront lets a, which has stood in line before, not do so again.
func (q *line) pushFront(a *attempt) {
	a.behind = q.first
	if q.first == nil {
		q.last = a
	} else {
		q.first.ahead = a
	}
	q.first, a.lines = a, q
}

// remove takes a out, if it is in line.
func (q *line) remove(a *attempt) {
	if a.lines != q {
		return
	}
	if a.ahead == nil {
		q.first = a.behind
	} else {
		a.ahead.behind = a.behind
	}
	if a.behind == nil {
		q.last = a.ahead
	} else {
		a.behind.ahead = a.ahead
	}
	a.ahead, a.behind, a.lines = nil, nil, nil
}
