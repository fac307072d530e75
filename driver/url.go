package driver

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// ParseURL reads the URL of a store as [Open] does. Unlike url.Parse it takes lists of
// hosts in which addresses of IPv6 stand or some have no port, as in
// etcd://[::1]:2379,[::2]:2379 and redis://h1:6379,h2: URL.Host is the whole list. An error
// never shows the password that a malformed URL may hold.
//
// An @ behind the hosts is refused, because nobody can say where the password ends then: write it as %40, and / ? #
// of a password as %2F %3F %23.
func ParseURL(rawURL string) (*url.URL, error) {
	if ambiguous(rawURL) {
		return nil, fmt.Errorf("%w: store URL: an @ behind the hosts: write / ? # of a password as %%2F %%3F %%23, and an @ elsewhere as %%40", ErrInvalid)
	}
	u, err := url.Parse(rawURL)
	var escape url.EscapeError
	if err != nil {
		if list, notList := parseList(rawURL); notList == nil {
			u, err = list, nil
		}
	}
	switch {
	case rawURL == "":
		return nil, fmt.Errorf("%w: store URL: it is empty: want a form like redis://host:6379/0", ErrInvalid)
	case err != nil && strings.Contains(err.Error(), "invalid port"):
		return nil, fmt.Errorf("%w: store URL: its port is not a number", ErrInvalid)
	case errors.As(err, &escape):
		return nil, fmt.Errorf("%w: store URL: a %% without two hexadecimal digits behind it: write a %% of a password as %%25", ErrInvalid)
	case err != nil || u.Scheme == "":
		return nil, fmt.Errorf("%w: store URL: want a form like redis://host:6379/0 or file:///var/lib/app/coord", ErrInvalid)
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, fmt.Errorf("%w: store URL: its query is malformed", ErrInvalid)
	}
	return u, nil
}

// ambiguous reports whether what looks like the hosts may be a part of a password, as in
// redis://user:pass/word@host.
func ambiguous(raw string) bool {
	_, rest, ok := strings.Cut(raw, "://")
	end := strings.IndexAny(rest, "/?#")
	return ok && end > 0 && strings.Contains(rest[end:], "@")
}

// RedactURL gives what may be shown of the URL of a store: its scheme, its hosts, and those parameters that hold no
// secret. Without hosts the path is shown, because it is the address of a file store, and so is a
// database number. xxxxx stands for everything else. Of what is no URL of a store only the scheme is shown.
func RedactURL(rawURL string) string {
	scheme, _, ok := strings.Cut(rawURL, "://")
	if !ok || strings.ContainsFunc(scheme, notOfScheme) {
		return redacted
	}
	u, err := ParseURL(rawURL)
	if err != nil {
		return scheme + "://" + redacted
	}
	shown := u.Scheme + "://"
	if u.User != nil {
		shown += redacted + "@"
	}
	path := u.EscapedPath()
	if u.Host != "" {
		shown += strings.TrimPrefix((&url.URL{Host: u.Host}).String(), "//")
		if len(path) > 1 && !database(path[1:]) {
			path = "/" + redacted
		}
	}
	query := u.Query()
	all := len(query)
	maps.DeleteFunc(query, func(name string, _ []string) bool { return !slices.Contains(shownParameters, name) })
	parameters := query.Encode()
	if len(query) < all || u.Fragment != "" {
		parameters = strings.TrimPrefix(parameters+"&"+redacted, "&")
	}
	if parameters != "" {
		parameters = "?" + parameters
	}
	return shown + path + parameters
}

// redacted stands for what is not shown.
const redacted = "xxxxx"

// shownParameters are those of the stores of this module that hold no secret.
var shownParameters = []string{
	"client_name", "dial_timeout", "on_missing", "pool_size", "prefix", "prepared", "read_timeout", "schema",
	"session_timeout", "socket", "sslcert", "sslkey", "sslmode", "sslrootcert", "timeout", "tls_ca", "tls_cert",
	"tls_insecure", "tls_key", "tls_server_name", "wait_replicas", "wait_timeout", "write_timeout",
}

func notOfScheme(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("+-.", c)
}

// database reports whether a path is the number of a database.
func database(path string) bool {
	return len(path) <= 4 && !strings.ContainsFunc(path, func(c rune) bool { return c < '0' || c > '9' })
}

// parseList reads a URL whose hosts are a list: the rest of it with one host in their place, and
// each of them by itself.
func parseList(raw string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	begin := strings.LastIndexByte(rest[:end], '@') + 1
	hosts := strings.Split(rest[begin:end], ",")
	if !ok || len(hosts) == 1 {
		return nil, errors.New("not a list of hosts")
	}
	u, err := url.Parse(scheme + "://" + rest[:begin] + "host" + rest[end:])
	if err != nil || u.Host != "host" {
		return nil, errors.Join(errors.New("malformed around its hosts"), err)
	}
	for i, host := range hosts {
		one, err := url.Parse("store://" + host)
		if err != nil {
			return nil, err
		}
		hosts[i] = one.Host
	}
	u.Host = strings.Join(hosts, ",")
	return u, nil
}
