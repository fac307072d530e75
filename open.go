package coord

import (
	"context"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
)

// Open opens the store that rawURL names and makes a Client of it. The program
// imports the backend for its side effect, or all of them:
//
//	import _ "github.com/coordgo/coord/backends/redis"
//
// The query parameter prefix is WithPrefix and any other is the backend's; an
// unknown one is ErrInvalid, as is a scheme that no imported backend has
// registered. Open connects within ctx. Errors show of the URL what
// [driver.RedactURL] does. Close the Client to give the connections back.
func Open(ctx context.Context, rawURL string, opts ...Option) (*Client, error) {
	backend, prefix, err := driver.Open(ctx, rawURL)
	if err != nil {
		return nil, &Error{Op: "open " + driver.RedactURL(rawURL), Err: errs.OfStore(ctx, err, false)}
	}
	if prefix != "" {
		opts = append([]Option{WithPrefix(prefix)}, opts...)
	}
	c, err := New(backend, opts...)
	if err != nil {
		if cerr := backend.Close(); cerr != nil {
			err = errs.Chain(err, cerr)
		}
		return nil, err
	}
	return c, nil
}
