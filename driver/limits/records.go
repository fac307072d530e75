package limits

// maxRecords is how many refundable grants a state remembers.
const maxRecords = 1024

// record is a grant that can be given back.
type record struct {
	id string // "" once it was given back in part, or if nobody can ask for it
	n  int64  // permits
	at int64  // window: number of the sub-window; bucket: when they fall due
}

// prune drops the records, oldest first, whose at is at most past.
func (s *State) prune(past int64) {
	for s.records.len() > 0 && s.records.at(0).at <= past {
		s.records.pop()
	}
}

// remember adds a record, and gives the one that had to make room for it.
func (s *State) remember(r record) (dropped record) {
	if s.records.len() == maxRecords {
		dropped = *s.records.at(0)
		s.records.pop()
	}
	s.records.push(r)
	return dropped
}

// claim finds the newest record of id that is later than past, and makes all
// such records nameless, so that id is not found again. nil if there is none:
// then nothing has changed.
func (s *State) claim(id string, past int64) *record {
	var found *record
	for i := s.records.len() - 1; i >= 0; i-- {
		r := s.records.at(i)
		if r.id != id || r.at <= past {
			continue
		}
		r.id = ""
		if found == nil {
			found = r
		}
	}
	return found
}
