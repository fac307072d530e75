package adapter

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/coordgo/coord/driver"
)

func init() { driver.Register("kv", Open) }

// Open opens the store that a URL names, kv://host:port, and makes a round trip
// within ctx. It takes no parameters.
func Open(ctx context.Context, u *url.URL) (driver.Backend, error) {
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the query of the URL is malformed", driver.ErrInvalid)
	case u.Port() == "" || u.Hostname() == "":
		return nil, fmt.Errorf("%w: host %q: want host:port", driver.ErrInvalid, u.Host)
	case u.User != nil || u.Fragment != "" || u.Path != "" && u.Path != "/":
		return nil, fmt.Errorf("%w: want a URL like kv://host:port, without user, path and fragment", driver.ErrInvalid)
	}
	for name := range query {
		return nil, fmt.Errorf("%w: parameter %q: this store takes none but prefix", driver.ErrInvalid, name)
	}
	b := New(u.Host)
	if err := b.Ping(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}
