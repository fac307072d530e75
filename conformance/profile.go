package conformance

import (
	"fmt"
	"slices"

	"github.com/coordgo/coord/conformance/internal/report"
	"github.com/coordgo/coord/driver"
)

// Profile is a purpose that a store may serve: what it has to claim, and which clauses
// of the contract it has to keep.
type Profile struct {
	Name string `json:"name"`
	// About says in one line what the profile is for.
	About    string        `json:"about"`
	Requires driver.Claims `json:"requires,omitempty"`
	Clauses  []string      `json:"clauses"`
	limits   bool          // it is about limits, else about locks
}

var (
	// saving is what any lock needs that saves work.
	saving = []string{"C1", "C2", "L1", "L4", "L5", "L6", "L7", "L8", "L9", "L10", "L11"}
	// counting is what any limit needs.
	counting = []string{"C1", "C2", "R1", "R2", "R3", "R4", "R6", "R9", "L10", "L11"}
)

// Profiles lists the profiles.
func Profiles() []Profile {
	return []Profile{
		{
			Name: "lock-efficiency", Clauses: saving,
			About: "locks that save work: what two do at once is wasted, and does no harm",
		}, {
			Name: "lock-correctness", Clauses: append([]string{"L2", "L3", "L12"}, saving...),
			Requires: driver.Claims{driver.TokenRestart, driver.DurableRestart, driver.NoEviction},
			About:    "locks that correctness leans on, with fenced writes: holds and tokens outlast the store's restart",
		}, {
			Name: "lock-fair", Clauses: saving, Requires: driver.Claims{driver.Fair, driver.Wake},
			About: "locks that are granted in the order of asking, and whose waiters are woken",
		}, {
			Name: "limit-basic", Clauses: counting, limits: true,
			About: "limits that keep their bound over all clients, and answer honestly",
		}, {
			Name: "limit-precise", Clauses: append([]string{"R5", "R7", "R8"}, counting...), limits: true,
			Requires: driver.Claims{driver.ServerClock, driver.Reserve, driver.AtomicMulti},
			About:    "limits on one clock, with reservations, and several at once",
		},
	}
}

// ProfileNamed finds a profile.
func ProfileNamed(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("conformance: profile %q: want one of %v", name, names)
}

// Includes reports whether the case is one of the profile's: it decides a claim that the
// profile requires, or is about a clause and the half of the store that matter to it.
func (p *Profile) Includes(c Case) bool {
	if c.Proves != "" && p.Requires.Has(c.Proves) {
		return true
	}
	other := p.limits && c.locks() || !p.limits && c.limits()
	return !other && slices.Contains(p.Clauses, c.Clause)
}

// Judgement is whether a store serves a purpose.
type Judgement string

// The judgements.
const (
	Meets     Judgement = "meets"
	MeetsNot  Judgement = "does not meet"
	NotProved Judgement = "not proved" // nothing speaks against it, but not all was tried
)

// Verdict is what a report says of a profile.
type Verdict struct {
	Profile   string    `json:"profile"`
	Judgement Judgement `json:"judgement"`
	// Reason in words, if the store has not the half that the profile is about.
	Reason string `json:"reason,omitempty"`
	// Missing are required claims that the store does not make.
	Missing driver.Claims `json:"missing,omitempty"`
	// Failed, Unproven and Left are ids of cases: failed, even if declared as a deviation;
	// unproven; not part of the run.
	Failed   []string `json:"failed,omitempty"`
	Unproven []string `json:"unproven,omitempty"`
	Left     []string `json:"left,omitempty"`
	// OnTrust are required claims that no case of the suite decides.
	OnTrust driver.Claims `json:"on_trust,omitempty"`
}

// Profile says whether the store serves the purpose of that name.
func (r *Report) Profile(name string) (Verdict, error) {
	p, err := ProfileNamed(name)
	if err != nil {
		return Verdict{}, err
	}
	return r.judge(&p), nil
}

func (r *Report) judge(p *Profile) Verdict {
	v := Verdict{Profile: p.Name}
	switch {
	case p.limits && !r.Store.Limits:
		v.Reason = "the store has no limits"
	case !p.limits && !r.Store.Locks:
		v.Reason = "the store has no locks"
	}
	for _, c := range p.Requires {
		if !claimed(r.Store.Claims, c) {
			v.Missing = append(v.Missing, c)
		} else if undecided[c] != "" {
			v.OnTrust = append(v.OnTrust, c)
		}
	}
	results := make(map[string]Outcome)
	for i := range r.Results {
		results[r.Results[i].ID] = r.Results[i].Outcome
	}
	for _, c := range Cases() {
		if !p.Includes(c) {
			continue
		}
		switch outcome, ran := results[c.ID]; {
		case !ran:
			v.Left = append(v.Left, c.ID)
		case outcome == Fail || outcome == Deviates:
			v.Failed = append(v.Failed, c.ID)
		case outcome == Unproven:
			v.Unproven = append(v.Unproven, c.ID)
		}
	}
	switch {
	case v.Reason != "" || len(v.Missing) > 0 || len(v.Failed) > 0:
		v.Judgement = MeetsNot
	case len(v.Unproven) > 0 || len(v.Left) > 0:
		v.Judgement = NotProved
	default:
		v.Judgement = Meets
	}
	return v
}

// String is the verdict in one line.
func (v Verdict) String() string {
	text := v.Profile + ": " + string(v.Judgement)
	if v.Reason != "" {
		text += "; " + v.Reason
	}
	for _, part := range []struct {
		what string
		n    int
		list string
	}{
		{"not claimed", len(v.Missing), report.Join(v.Missing)},
		{"failed", len(v.Failed), report.Some(v.Failed)},
		{"unproven", len(v.Unproven), report.Some(v.Unproven)},
		{"not run", len(v.Left), report.Some(v.Left)},
		{"taken on trust", len(v.OnTrust), report.Join(v.OnTrust)},
	} {
		if part.n > 0 {
			text += fmt.Sprintf("; %s: %s", part.what, part.list)
		}
	}
	return text
}
