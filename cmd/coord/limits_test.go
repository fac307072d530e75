package main_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

const ruledConfig = `
best_effort: true
limits: {supplier: 10/1m}
rules:
  - {name: orders, match: {path: "/orders/{id}"}, subject: [user, {path: id}], limits: [5/1h, supplier]}
  - {name: all, limits: [2000/1s]}
`

// leftOf runs a command of limits, and gives what is left of each.
func (u *user) leftOf(args ...string) (left []int) {
	u.t.Helper()
	r := u.run(append(args, "--json")...)
	r.want(u.t, 0, "", "")
	for line := range strings.Lines(r.stdout) {
		var seen struct {
			Name, Limit, Key string
			Remaining        int
		}
		if err := json.Unmarshal([]byte(line), &seen); err != nil || seen.Key == "" || seen.Limit == "" {
			u.t.Fatalf("%v: %s", err, line)
		}
		left = append(left, seen.Remaining)
	}
	return left
}

// Why somebody is limited is one command, and to let it in is another: by the key, or by the rule and its subject.
func TestLimitsAreSeenAndReset(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		u.run("limit", "mail", "--rate", "10/1h", "-n", "10").want(t, 0, "", "")
		if r := u.run("limit", "peek", "mail", "--rate", "10/1h"); r.code != 0 || !regexp.MustCompile(`^LIMIT +LEFT +OF +NEXT IN +FULL IN +KEY\nmail +0 +10/1h +\S+ +\S+ +mail\n$`).MatchString(r.stdout) {
			t.Errorf("peek: %+v", r)
		}
		if left := u.leftOf("limit", "reset", "mail", "--rate", "10/1h"); len(left) != 1 || left[0] != 10 {
			t.Errorf("after a reset %v", left)
		}
		if left := u.leftOf("limit", "charge", "mail", "--rate", "10/1h burst=10", "-n", "12"); len(left) != 1 || left[0] != 0 {
			t.Errorf("after a charge %v", left)
		}
		file := u.write("coord.yaml", ruledConfig)
		of := func(command string, more ...string) []int {
			return u.leftOf(append([]string{"--config", file, "limit", command, "--rule", "orders", "--subject", "ann", "--subject", "7"}, more...)...)
		}
		if left := of("charge", "-n", "4"); len(left) != 2 || left[0] != 1 || left[1] != 6 {
			t.Errorf("after a charge %v", left)
		}
		if left := of("peek"); left[0] != 1 || left[1] != 6 {
			t.Errorf("peek %v", left)
		}
		if left := u.leftOf("--config", file, "limit", "peek", "--rule", "orders", "--subject", "ben", "--subject", "7"); left[0] != 5 {
			t.Errorf("another subject has %v", left)
		}
		if left := of("reset"); left[0] != 5 || left[1] != 10 {
			t.Errorf("after a reset %v", left)
		}
	})
}

func TestLimitList(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	file := u.write("coord.yaml", ruledConfig)
	r := u.run("--config", file, "limit", "list")
	want := `LIMIT     OF       RULE    SUBJECT
supplier  10/1m    -       -
-         5/1h     orders  user + path id
supplier  10/1m    orders  user + path id
-         2000/1s  all     everyone
`
	if r.code != 0 || r.stdout != want {
		t.Errorf("%+v\nwant\n%s", r, want)
	}
	u.run("limit", "list").want(t, 64, "", "no limits and no rules: give --config")
}

func TestLimitsRefuse(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	file := u.write("coord.yaml", ruledConfig)
	for args, stderr := range map[string]string{
		"limit peek":                         "want a NAME, or --rule with its --subject: see coord limit peek --help",
		"limit peek a --rule orders":         "want a NAME, or --rule with its --subject",
		"limit peek a --subject b":           "want a NAME, or --rule with its --subject",
		"limit peek a":                       `no --rate, and`,
		"limit peek --rule none":             `no rule "none"`,
		"limit peek --rule orders":           "no value for the subject user",
		"limit reset --rule all --subject a": "1 values too many",
		"limit charge a --rate 1/1s -n -1":   "-1",
	} {
		u.run(append([]string{"--local", "--config", file}, strings.Fields(args)...)...).want(t, 64, "", stderr)
	}
}

// An override is kept by the store, and every program whose file says so applies it, until it is ended.
func TestLimitOverride(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		file := u.write("coord.yaml", strings.Replace(ruledConfig, "best_effort: true", "best_effort: true\noverrides: true", 1))
		ann := []string{"--config", file, "limit", "override", "--rule", "orders", "--subject", "ann smith", "--subject", "7"}
		if !u.store.lists || !u.store.kept {
			u.run("limit", "override", "a", "--factor", "2", "--for", "1h").want(t, 64, "", "which does not claim")
			u.run("--config", file, "limit", "a", "--rate", "5/1h").want(t, 64, "", "which does not claim")
			return
		}
		peek := func(subject, file string) []int {
			return u.leftOf("--config", file, "limit", "peek", "--rule", "orders", "--subject", subject, "--subject", "7")
		}
		u.run(append(ann, "--factor", "10", "--for", "48h")...).want(t, 0, "", "")
		if left := peek("ann smith", file); left[0] != 50 || left[1] != 100 {
			t.Errorf("with an override: %v", left)
		}
		if left := peek("ben", file); left[0] != 5 {
			t.Errorf("of another subject: %v", left)
		}
		if left := peek("ann smith", u.write("plain.yaml", ruledConfig)); left[0] != 5 {
			t.Errorf("of a program without overrides: %v", left)
		}
		if out := u.run("--config", file, "limit", "peek", "--rule", "orders", "--subject", "ann smith", "--subject", "7").stdout; !strings.Contains(out, "×10") || !strings.Contains(out, " 50/1h ") {
			t.Errorf("peek shows no override:\n%s", out)
		}
		u.run("limit", "overrides").want(t, 0, "FACTOR  UNTIL ", "")
		for line := range strings.Lines(u.run("limit", "overrides", "--json").stdout) { // the rule has two limits
			var o struct {
				Key    string
				Factor float64
				LeftMS int64 `json:"left_ms"`
			}
			if err := json.Unmarshal([]byte(line), &o); err != nil || o.Factor != 10 || o.LeftMS <= 47*3600_000 || !strings.Contains(o.Key, "/ann smith/") {
				t.Errorf("overrides: %+v (%v)", o, err)
			}
		}
		u.run("limit", "override", "mail", "--factor", "0.5", "--until", "2100-01-01").want(t, 64, "", "want above 0, at most")
		u.run("limit", "override", "mail", "--factor", "0.5", "--for", "1h").want(t, 0, "FACTOR  UNTIL ", "")
		u.run("--config", file, "limit", "mail", "--rate", "10/1h", "-n", "5").want(t, 0, "", "")
		u.run("--config", file, "limit", "mail", "--rate", "10/1h").want(t, 75, "", "retry after")
		u.run(append(ann, "--end")...).want(t, 0, "", "")
		u.run(append(ann, "--end")...).want(t, 3, "", "has no override")
		if left := peek("ann smith", file); left[0] != 5 {
			t.Errorf("after its end: %v", left)
		}
		if out := u.run("status").stdout; out != "" {
			t.Errorf("status shows an override:\n%s", out)
		}
	})
}

func TestLimitOverrideRefuses(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for args, stderr := range map[string]string{
		"--factor 2":                             "want --factor with --for or --until, or --end alone",
		"--for 1h":                               "want --factor with --for or --until, or --end alone",
		"--end --factor 2":                       "want --factor with --for or --until, or --end alone",
		"--factor 2 --for 1h --until 2100-01-01": "want --factor with --for or --until, or --end alone",
		"--factor 2 --until 2001-01-01":          "--until 2001-01-01 is over",
		"--factor 2 --until friday":              `--until "friday": want "2006-01-02", "2006-01-02 15:04" or RFC 3339`,
		"--factor 2 --for 1h --rule r":           "want a NAME, or --rule with its --subject",
	} {
		u.run(append([]string{"--local", "limit", "override", "a"}, strings.Fields(args)...)...).want(t, 64, "", stderr)
	}
}
