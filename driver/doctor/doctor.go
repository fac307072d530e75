// Package doctor has the checks of coord doctor as tables, for adapters: each row is a condition
// over what the servers have told, what it means, and what to do about it.
package doctor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/coordgo/coord/driver"
)

// Rule is one row of a table.
type Rule struct {
	when    bool
	finding driver.Finding
}

// OK is for what is as it should be.
func OK(when bool, text string) Rule {
	return Rule{when, driver.Finding{Level: driver.LevelOK, Text: text}}
}

// Skip is for what the servers do not tell, or the user may not ask: why says so.
func Skip(when bool, why string) Rule {
	return Rule{when, driver.Finding{Level: driver.LevelSkip, Text: "not checked: " + why}}
}

// Warn is for what works until something fails.
func Warn(when bool, text, remedy string) Rule {
	return Rule{when, driver.Finding{Level: driver.LevelWarn, Text: text, Remedy: remedy}}
}

// Fail is for what does not work, or loses locks in normal operation.
func Fail(when bool, text, remedy string) Rule {
	return Rule{when, driver.Finding{Level: driver.LevelFail, Text: text, Remedy: remedy}}
}

// Report is what Check of a [driver.Operator] returns: of each subject the worst finding.
type Report struct {
	// Server is the one whose findings are added, if there are several: it begins the text of all
	// that is not ok.
	Server   string
	Findings []driver.Finding
}

// Check adds what is found of a subject: the first rule that holds. If none does, it adds nothing.
func (r *Report) Check(name string, rules ...Rule) {
	i := slices.IndexFunc(rules, func(rule Rule) bool { return rule.when })
	if i < 0 {
		return
	}
	f := rules[i].finding
	f.Name, f.Text = name, strings.ReplaceAll(f.Text, "\n", "; ")
	if r.Server != "" && f.Level != driver.LevelOK {
		f.Text = r.Server + ": " + f.Text
	}
	at := slices.IndexFunc(r.Findings, func(other driver.Finding) bool { return other.Name == name })
	if at < 0 {
		r.Findings = append(r.Findings, f)
	} else if rank(f.Level) > rank(r.Findings[at].Level) {
		r.Findings[at] = f
	}
}

func rank(level driver.Level) int {
	return slices.Index([]driver.Level{driver.LevelOK, driver.LevelSkip, driver.LevelWarn, driver.LevelFail}, level)
}

// Settings are what a server tells of itself, by name. What it does not tell is "".
type Settings map[string]string

// Parse reads a setting from each line that has the separator.
func Parse(text, separator string) Settings {
	s := Settings{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), separator); ok {
			s[name] = value
		}
	}
	return s
}

// Number is a setting's value; 0 if it is no number.
func (s Settings) Number(name string) int64 {
	n, _ := strconv.ParseInt(s[name], 10, 64)
	return n
}
