package config

import (
	"slices"
	"strings"

	"github.com/coordgo/coord/driver"
)

// URL is the address of a store, password and all. Every way of printing it
// hides the secrets; string(u) is the address as it was written. It may refer to secrets
// that are elsewhere: see the package's documentation.
type URL string

// String gives what [driver.RedactURL] shows of the URL.
func (u URL) String() string {
	if u == "" {
		return ""
	}
	m, err := mask(string(u))
	if err != nil { // what looks like a reference is none
		return driver.RedactURL(string(u))
	}
	return m.replace(driver.RedactURL(m.text), m.refs)
}

// secret reports whether a query parameter of that name may hold a secret.
func secret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"pass", "pwd", "secret", "token", "cred", "auth"}, func(part string) bool {
		return strings.Contains(name, part)
	})
}

// GoString is String, so that %#v shows no secret either.
func (u URL) GoString() string { return "config.URL(" + u.String() + ")" }

// MarshalText is String, so that logs and JSON show no secret.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// problem says what keeps u from being the URL of a store; "" if nothing does.
// Whether a backend knows the scheme is not its business.
func (u URL) problem() string {
	const want = "want a form like redis://host:6379/0 or file:///var/lib/app/coord"
	m, err := mask(string(u))
	if err != nil {
		return err.Error()
	}
	if _, err := driver.ParseURL(m.text); err != nil && strings.Contains(err.Error(), "%") {
		return reason(err)
	}
	beforeQuery, _, _ := strings.Cut(m.text, "?")
	parsed, err := driver.ParseURL(beforeQuery)
	switch {
	case err != nil && strings.Contains(err.Error(), "port"):
		return "its port is not a number"
	case err != nil:
		return "not a URL: " + want
	case parsed.Opaque != "" || !strings.Contains(string(u), "://"):
		return "no // after the scheme: " + want
	}
	if parsed, err = driver.ParseURL(m.text); err != nil {
		return "malformed query: " + want
	}
	if m.misplaced(parsed) {
		return "a ${…} outside of the password: it stands for a password alone, in user:${…}@host or in a parameter such as sentinel_password=${…}"
	}
	return ""
}

// prefix is the prefix that the URL names, "" if none.
func (u URL) prefix() string {
	m, err := mask(string(u))
	if err != nil {
		return ""
	}
	parsed, err := driver.ParseURL(m.text)
	if err != nil {
		return ""
	}
	return parsed.Query().Get("prefix")
}
