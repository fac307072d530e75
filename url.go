package coord

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ParseURL reads the URL of a store as [Open] does. Unlike url.Parse it takes lists of
// hosts in which addresses of IPv6 stand or some have no port, as in
// etcd://[::1]:2379,[::2]:2379 and redis://h1:6379,h2: URL.Host is the whole list. An error
// never shows the password that a malformed URL may hold.
func ParseURL(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		u, err = parseList(rawURL)
	}
	if err != nil || u.Scheme == "" {
		return nil, fmt.Errorf("%w: store URL: want a form like redis://host:6379/0 or file:///var/lib/app/coord", ErrInvalid)
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, fmt.Errorf("%w: store URL: its query is malformed", ErrInvalid)
	}
	return u, nil
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
