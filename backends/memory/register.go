package memory

import (
	"context"
	"fmt"
	"net/url"
	"sync"

	"github.com/coordgo/coord/driver"
)

func init() { driver.Register("memory", Open) }

// named are the stores that URLs with a name share.
var named struct {
	sync.Mutex
	stores map[string]*Store
}

// Open opens the store that a URL like memory:// or memory://name names.
func Open(_ context.Context, u *url.URL) (driver.Backend, error) {
	if u.Opaque != "" || u.User != nil || u.Port() != "" || u.Fragment != "" || u.Path != "" && u.Path != "/" {
		return nil, fmt.Errorf("%w: store URL: want memory:// or memory://name", driver.ErrInvalid)
	}
	if u.RawQuery != "" {
		return nil, fmt.Errorf("%w: store URL: a parameter: a memory store has none but prefix", driver.ErrInvalid)
	}
	if u.Host == "" {
		return New(), nil
	}
	named.Lock()
	defer named.Unlock()
	s := named.stores[u.Host]
	if s == nil {
		if named.stores == nil {
			named.stores = make(map[string]*Store)
		}
		s = NewStore()
		named.stores[u.Host] = s
	}
	return s.Open(), nil
}
