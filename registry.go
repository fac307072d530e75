package coord

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

var registry struct {
	sync.RWMutex
	open map[string]driver.OpenFunc
}

// Register makes a store available to [Open] under the scheme of its URLs. A
// backend's package calls it when it is imported. It panics on an empty or
// repeated scheme and on a nil open.
func Register(scheme string, open driver.OpenFunc) {
	registry.Lock()
	defer registry.Unlock()
	switch {
	case scheme == "" || open == nil:
		panic("coord: Register wants a scheme and an open function")
	case registry.open[scheme] != nil:
		panic("coord: Register called twice for " + scheme)
	case registry.open == nil:
		registry.open = make(map[string]driver.OpenFunc)
	}
	registry.open[scheme] = open
}

// Schemes lists the registered schemes in order.
func Schemes() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.open))
}

// Open opens the store that rawURL names and makes a Client of it. The program
// imports the backend for its side effect, or all of them:
//
//	import _ "github.com/coordgo/coord/backends/redis"
//
// The query parameter prefix is WithPrefix and any other is the backend's; an
// unknown one is ErrInvalid, as is a scheme that no imported backend has registered. Open connects within ctx. Errors show of the URL what
// [RedactURL] does. Close the Client to give the connections back.
func Open(ctx context.Context, rawURL string, opts ...Option) (*Client, error) {
	backend, prefix, err := OpenBackend(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	if prefix != "" {
		opts = append([]Option{WithPrefix(prefix)}, opts...)
	}
	c, err := New(backend, opts...)
	if err != nil {
		return nil, closeAfter(backend, err)
	}
	return c, nil
}

// OpenBackend is the first half of Open: the store without a Client, and the
// prefix that the URL names. It is for programs that combine stores or work on the
// driver, like Split and the conformance suite.
func OpenBackend(ctx context.Context, rawURL string) (b driver.Backend, prefix string, err error) {
	u, err := ParseURL(rawURL)
	if err != nil {
		return nil, "", &Error{Op: "open", Err: err}
	}
	registry.RLock()
	open := registry.open[u.Scheme]
	registry.RUnlock()
	if open == nil {
		return nil, "", &Error{Op: "open", Err: unknownScheme(u)}
	}
	query := u.Query()
	if query.Has("prefix") {
		prefix = query.Get("prefix")
		query.Del("prefix")
		u.RawQuery = query.Encode()
	}
	backend, err := open(ctx, u)
	if err != nil {
		return nil, "", &Error{Op: "open " + RedactURL(rawURL), Err: openError(ctx, err)}
	}
	return backend, prefix, nil
}

// openError adds ErrUnavailable to what is not a mistake in the URL.
func openError(ctx context.Context, err error) error {
	if driver.Definite(err) {
		return errs.OfStore(ctx, err, false)
	}
	return errs.Chain(ErrUnavailable, err)
}

// closeAfter closes what was opened before err.
func closeAfter(b driver.Backend, err error) error {
	if cerr := b.Close(); cerr != nil {
		return errs.Chain(err, cerr)
	}
	return err
}
