package config

import (
	"net/url"
	"strings"
	"testing"
)

// Whatever a secret is, it is the password that a store gets, and whatever is put around it, no
// message and no printed form shows a password that stands in a URL.
func FuzzURL(f *testing.F) {
	for _, raw := range []string{
		"redis://u:${A}@h/0", "redis://h?auth=${A}", "redis://u:${file:/x}@h", "${A}", "redis://u:$${A}@h",
		"x://:reference0z${A}@h", "a://u:%zz@h", "redis://u:longsecret@h?token=longsecret", "a://u:${A}${A}@h?auth=${A}#f", "${", "a://${A}:p@h",
	} {
		f.Add(raw, "p@ss/w:rd %41+&?#\"\\\xff${A}reference0z")
	}
	f.Fuzz(func(t *testing.T, raw, value string) {
		u := URL(raw)
		shown := u.String()
		if parsed, err := url.Parse(raw); err == nil {
			if password, ok := parsed.User.Password(); ok && len(password) > 6 && strings.Count(raw, password) == 1 && strings.Contains(shown, password) {
				t.Errorf("%q is shown as %q", raw, shown)
			}
		}
		if problem := u.problem(); problem != "" || value == "" {
			return
		}
		resolved, err := u.resolve(t.Context(), func(name string) (string, bool) { return value, name == "A" })
		if err != nil {
			return
		}
		m, err := mask(raw)
		if err != nil {
			t.Fatal(err)
		}
		template, err1 := url.Parse(m.text)
		got, err2 := url.Parse(resolved)
		if err1 != nil || err2 != nil {
			t.Fatalf("%q resolved to %q: %v, %v", raw, resolved, err1, err2)
		}
		want := make([]string, len(m.words))
		for i := range want {
			want[i] = value
		}
		had, _ := template.User.Password()
		if has, _ := got.User.Password(); has != m.replace(had, want) {
			t.Errorf("%q with %q: password %q", raw, value, has)
		}
		for name, values := range template.Query() {
			for i, v := range values {
				if has := got.Query()[name][i]; has != m.replace(v, want) {
					t.Errorf("%q with %q: parameter %s=%q", raw, value, name, has)
				}
			}
		}
		if got.Host != template.Host || got.Scheme != template.Scheme || got.Path != template.Path || got.User.Username() != template.User.Username() {
			t.Errorf("%q with %q resolved to %q", raw, value, resolved)
		}
	})
}
