package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/coordgo/coord/driver"
)

// passed is a report of a store that passes every case, but for those that bad names.
func passed(claims driver.Claims, bad map[string]Outcome) *Report {
	r := &Report{Schema: Schema, Suite: Version, Store: Store{Name: "x", Claims: claims, Locks: true, Limits: true}}
	for _, c := range Cases() {
		o := Pass
		if b, ok := bad[c.ID]; ok {
			o = b
		}
		if o != "" {
			r.Results = append(r.Results, Result{Case: c, Outcome: o})
		}
	}
	r.summarize(nil)
	return r
}

func TestProfiles(t *testing.T) {
	all := driver.Claims(driver.AllClaims())
	without := func(c driver.Claim) driver.Claims {
		return slices.DeleteFunc(slices.Clone(all), func(x driver.Claim) bool { return x == c })
	}
	for name, test := range map[string]struct {
		profile string
		claims  driver.Claims
		bad     map[string]Outcome
		want    Judgement
		says    string
	}{
		"all is well":             {"lock-fair", all, nil, Meets, ""},
		"claim missing":           {"lock-fair", without(driver.Fair), nil, MeetsNot, "not claimed: fair"},
		"claim that is included":  {"lock-correctness", without(driver.TokenRestart), nil, Meets, "on trust: no-eviction"},
		"case failed":             {"lock-efficiency", all, map[string]Outcome{"LOCK-02": Fail}, MeetsNot, "failed: LOCK-02"},
		"failure declared":        {"lock-efficiency", all, map[string]Outcome{"LOCK-02": Deviates}, MeetsNot, "failed: LOCK-02"},
		"another profile's":       {"limit-basic", all, map[string]Outcome{"LOCK-02": Fail, "LOCK-80": Fail}, Meets, ""},
		"case unproven":           {"lock-correctness", all, map[string]Outcome{"LOCK-15": Unproven}, NotProved, "unproven: LOCK-15"},
		"case not run":            {"limit-precise", all, map[string]Outcome{"LIMIT-59": ""}, NotProved, "not run: LIMIT-59"},
		"capability not required": {"limit-basic", all, map[string]Outcome{"LIMIT-38": Unsupported}, Meets, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := passed(test.claims, test.bad).Profile(test.profile)
			if err != nil || v.Judgement != test.want || !strings.Contains(v.String(), test.says) {
				t.Errorf("%v, %v: want %s with %q", v, err, test.want, test.says)
			}
		})
	}
	r := passed(all, nil)
	r.Store.Locks = false
	if v, _ := r.Profile("lock-efficiency"); v.Judgement != MeetsNot || v.Reason == "" {
		t.Errorf("a store without locks: %v", v)
	}
	if _, err := r.Profile("best"); err == nil || !strings.Contains(err.Error(), "lock-fair") {
		t.Errorf("an unknown profile: %v, want the names of those there are", err)
	}
}

func TestProfilesAreWellFormed(t *testing.T) {
	for _, p := range Profiles() {
		if p.About == "" || len(driver.Claims(driver.AllClaims()).Missing(p.Requires...)) > 0 {
			t.Errorf("profile %s has no description, or requires an unknown claim", p.Name)
		}
		for _, clause := range p.Clauses {
			if !slices.ContainsFunc(Cases(), func(c Case) bool { return c.Clause == clause && p.Includes(c) }) {
				t.Errorf("profile %s includes clause %s, of which it has no case", p.Name, clause)
			}
		}
		for _, claim := range p.Requires {
			proved := slices.ContainsFunc(Cases(), func(c Case) bool { return c.Proves == claim && p.Includes(c) })
			if !proved && undecided[claim] == "" {
				t.Errorf("profile %s requires %s, and includes no case that decides it", p.Name, claim)
			}
		}
	}
}

// Only the cases of a profile run, and only its verdict is given.
func TestRunOfAProfile(t *testing.T) {
	var ran []Case
	r := run(t, &Suite{Profile: "lock-fair", Only: only("LOCK-02", "LOCK-51", "LIMIT-05"), Finished: func(r Result) { ran = append(ran, r.Case) }})
	if len(ran) != 2 || r.Selection != (Selection{Profile: "lock-fair", Partial: true}) || len(r.Summary.Profiles) != 1 {
		t.Errorf("%d cases ran, selection %+v, verdicts %v: want the two about locks, and one verdict", len(ran), r.Selection, r.Summary.Profiles)
	}
	if _, err := (&Suite{Harness: memoryHarness(), Profile: "best"}).Run(t.Context()); err == nil {
		t.Error("an unknown profile ran")
	}
}

// A fast pass tells what it left out.
func TestFastPass(t *testing.T) {
	s := &Suite{Harness: memoryHarness(), Fast: true, Only: func(Case) bool { return false }}
	r, err := s.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.stop()
	res := r.runCase(t.Context(), &Case{ID: "LOCK-00", Slow: true, run: func(e *env) { e.Errorf("it ran") }}, func() {})
	if res.Outcome != Unproven || !strings.Contains(res.Reason, "fast pass") {
		t.Errorf("%s, %q, want unproven, left out by the fast pass", res.Outcome, res.Reason)
	}
}
