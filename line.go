package coord

// line is a slot's queue: a list through the attempts themselves, so that one leaves
// from anywhere in constant time. Client.mu guards it.
type line struct {
	first, last *attempt
	patient     int // those that are no tries
}

// count counts a in, or out by -1.
func (q *line) count(a *attempt, n int) {
	if !a.try {
		q.patient += n
	}
}

func (q *line) push(a *attempt) {
	q.count(a, 1)
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
	q.count(a, 1)
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
	q.count(a, -1)
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

// drivenBy notes whether the one that drives a now leaves rather than wait.
func (a *attempt) drivenBy(try bool) {
	if a.lines == nil {
		a.try = try
		return
	}
	a.lines.count(a, -1)
	a.try = try
	a.lines.count(a, 1)
}
