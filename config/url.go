package config

import (
	"net/url"
	"slices"
	"strings"
)

// URL is the address of a store, password and all. Every way of printing it
// hides the secrets; string(u) is the address as it was written.
type URL string

// hidden stands for a secret.
const hidden = "xxxxx"

// String gives the URL with the password, and every query parameter that by its
// name may be a secret, replaced by xxxxx.
func (u URL) String() string {
	if u == "" {
		return ""
	}
	parsed, err := url.Parse(string(u))
	if err != nil || parsed.Scheme == "" || parsed.Opaque != "" {
		return hidden // nobody can say which part is secret
	}
	query, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return hidden
	}
	_, found := parsed.User.Password()
	for name, values := range query {
		if secret(name) {
			found = true
			query[name] = slices.Repeat([]string{hidden}, len(values))
		}
	}
	if !found {
		return string(u)
	}
	parsed.RawQuery = query.Encode()
	return parsed.Redacted()
}

// secret reports whether a query parameter of that name may hold a secret.
func secret(name string) bool {
	name = strings.ToLower(name)
	for _, part := range [...]string{"pass", "pwd", "secret", "token", "cred", "auth"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// GoString is String, so that %#v shows no secret either.
func (u URL) GoString() string { return "config.URL(" + u.String() + ")" }

// MarshalText is String, so that logs and JSON show no secret.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// problem says what keeps u from being the URL of a store; "" if nothing does.
// Whether a backend knows the scheme is not its business.
func (u URL) problem() string {
	const want = "want a form like redis://host:6379/0 or file:///var/lib/app/coord"
	parsed, err := url.Parse(string(u))
	switch {
	case err != nil || parsed.Scheme == "":
		return "not a URL: " + want
	case parsed.Opaque != "" || !strings.Contains(string(u), "://"):
		return "no // after the scheme: " + want
	}
	if _, err := url.ParseQuery(parsed.RawQuery); err != nil {
		return "malformed query: " + want
	}
	return ""
}

// prefix is the prefix that the URL names, "" if none.
func (u URL) prefix() string {
	parsed, err := url.Parse(string(u))
	if err != nil {
		return ""
	}
	return parsed.Query().Get("prefix")
}
