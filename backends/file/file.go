package file

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/cas"
)

const (
	minTTL  = 10 * time.Millisecond
	ttlStep = time.Millisecond
	maxTTL  = 366 * 24 * time.Hour
	// openTime bounds New, which has no ctx.
	openTime = 10 * time.Second
)

// Claims are what the conformance suite proves of this store.
var Claims = driver.Claims{
	driver.PerHoldTTL, driver.Inspect, driver.Break, driver.List, driver.Shared, driver.Vote, driver.MinHoldAfterExit,
	driver.TokenRestart, driver.TokenClockSeeded,
	driver.DurableRestart, driver.NoEviction,
	driver.ServerClock, driver.Reserve, driver.Charge,
	driver.ScopeMachine,
}

// New opens the store in dir, an absolute path, and makes it if there is none.
//
// It refuses with ErrInvalid what cannot be a store: a relative path, a file, a
// directory of something else; with ErrUnsupported a filesystem that several
// machines share or that does not lock; with ErrCorrupt a store of another
// format. A missing permission is fs.ErrPermission.
func New(dir string) (driver.Backend, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	return open(ctx, dir)
}

// Open opens the store that a URL like file:///var/lib/app/coord names.
func Open(ctx context.Context, u *url.URL) (driver.Backend, error) {
	switch {
	case u.Opaque != "" || u.Host != "" && u.Host != "localhost":
		return nil, fmt.Errorf("%w: store URL: want three slashes and an absolute path, like file:///var/lib/app/coord", driver.ErrInvalid)
	case u.User != nil || u.Fragment != "":
		return nil, fmt.Errorf("%w: store URL: want no user and no fragment", driver.ErrInvalid)
	}
	if u.RawQuery != "" {
		return nil, fmt.Errorf("%w: store URL: a parameter: a file store has none but prefix", driver.ErrInvalid)
	}
	dir := u.Path
	if runtime.GOOS == "windows" {
		dir = strings.TrimPrefix(dir, "/") // of /C:/dir
	}
	return open(ctx, filepath.FromSlash(dir))
}

func open(ctx context.Context, dir string) (driver.Backend, error) {
	s, err := openStore(ctx, dir, sharedFS)
	if err != nil {
		return nil, err
	}
	return backend{cas.New(driver.Info{
		Name:    "file",
		Server:  "format 1",
		MinTTL:  minTTL,
		TTLStep: ttlStep,
		MaxTTL:  maxTTL,
		Claims:  Claims,
	}, s), s}, nil
}
