package driver

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
)

var registry struct {
	sync.RWMutex
	open map[string]OpenFunc
}

// Register makes a store available to [Open] under the scheme of its URLs. An
// adapter's package calls it when it is imported. It panics on an empty or
// repeated scheme and on a nil open.
func Register(scheme string, open OpenFunc) {
	registry.Lock()
	defer registry.Unlock()
	switch {
	case scheme == "" || open == nil:
		panic("coord: Register wants a scheme and an open function")
	case registry.open[scheme] != nil:
		panic("coord: Register called twice for " + scheme)
	case registry.open == nil:
		registry.open = make(map[string]OpenFunc)
	}
	registry.open[scheme] = open
}

// Schemes lists the registered schemes in order.
func Schemes() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.open))
}

// Open opens the store that rawURL names, and gives the prefix that the URL has for the keys of a client. It is for
// programs that combine stores or work on the driver; an application calls coord.Open. A mistake in the URL is
// [ErrInvalid], what the store cannot do [ErrUnsupported]. The error of a store that could not be reached, or did not
// answer, is [ErrUnavailable], unless ctx was cancelled: then it is the cause of that. No error shows the URL:
// [RedactURL] does.
func Open(ctx context.Context, rawURL string) (b Backend, prefix string, err error) {
	u, err := ParseURL(rawURL)
	if err != nil {
		return nil, "", err
	}
	registry.RLock()
	open := registry.open[u.Scheme]
	registry.RUnlock()
	if open == nil {
		return nil, "", unknownScheme(u)
	}
	if query := u.Query(); query.Has("prefix") {
		prefix = query.Get("prefix")
		query.Del("prefix")
		u.RawQuery = query.Encode()
	}
	b, err = open(ctx, u)
	switch {
	case err == nil:
		return b, prefix, nil
	case !Definite(err) || errors.Is(err, ErrNotSent):
		why := ErrUnavailable
		if errors.Is(ctx.Err(), context.Canceled) {
			why = context.Cause(ctx)
		}
		err = &openError{why, err}
	}
	return nil, "", err
}

// openError says why no store was opened. Its text leaves out that nothing was sent, which is for programs.
type openError struct{ why, err error }

func (e *openError) Error() string {
	why, text := e.why.Error(), strings.ReplaceAll(e.err.Error(), ErrNotSent.Error()+": ", "")
	if strings.Contains(text, why) {
		return text
	}
	return why + ": " + text
}

func (e *openError) Unwrap() []error { return []error{e.why, e.err} }
