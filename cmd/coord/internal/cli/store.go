package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
)

// storeFlags say which store to use.
type storeFlags struct{ url, file string }

// openTime bounds how long a command waits for its store to answer the first time.
const openTime = 10 * time.Second

// load gives the configuration that the flags, the environment and the defaults come to.
func (f storeFlags) load() (*config.Config, error) {
	cfg, err := f.loadFile()
	if err != nil {
		return nil, err
	}
	switch {
	case f.url != "":
		err = flagURL(cfg, "--url", f.url)
	case f.file == "" && os.Getenv(config.EnvURL) != "":
		err = flagURL(cfg, config.EnvURL, os.Getenv(config.EnvURL))
	case cfg.URL == "":
		var home string
		if home, err = stateURL(); err == nil {
			err = cfg.SetURL("default store", home)
		}
	}
	if err != nil {
		return nil, err
	}
	return cfg, knownScheme(cfg.URL)
}

// knownScheme refuses a store that is not in this program.
func knownScheme(u config.URL) error {
	scheme, _, _ := strings.Cut(string(u), "://")
	if known := coord.Schemes(); !slices.Contains(known, scheme) {
		return usage("no store %s://: want one of %s", scheme, list(known))
	}
	return nil
}

// loadShared is load for commands that meet other processes at the store.
func (f storeFlags) loadShared() (*config.Config, error) {
	cfg, err := f.load()
	if err != nil {
		return nil, err
	}
	scheme, _, _ := strings.Cut(string(cfg.URL), "://")
	if all.Claims(scheme).Has(driver.ScopeProcess) {
		return nil, usage("a %s:// store is each process's own, and would keep nobody out: want another store", scheme)
	}
	return cfg, nil
}

// withArg takes the URL that a command may be given as its argument.
func (f storeFlags) withArg(args []string) (storeFlags, error) {
	switch {
	case len(args) > 1:
		return f, usage("unexpected argument %q: want one URL", args[1])
	case len(args) == 1 && f.url != "":
		return f, usage("a URL beside --url: give one of them")
	case len(args) == 1:
		f.url = args[0]
	}
	return f, nil
}

// chosen reports whether the user has named a store.
func (f storeFlags) chosen() bool {
	return f.url != "" || f.file != "" || os.Getenv(config.EnvURL) != ""
}

func (f storeFlags) loadFile() (*config.Config, error) {
	if f.file == "" {
		return config.Parse("", nil)
	}
	cfg, err := config.Load(f.file)
	var mistake *config.Error
	if err != nil && !errors.As(err, &mistake) {
		return nil, exit(exitConfig, "--config: %w", err)
	}
	return cfg, err
}

// flagURL sets a URL that is not from a file: a bad one is a mistake in the usage.
func flagURL(cfg *config.Config, source, raw string) error {
	if err := cfg.SetURL(source, raw); err != nil {
		return exit(exitUsage, "%w", err)
	}
	return nil
}

// stateURL is the store of this user on this machine, and makes its parent.
func stateURL() (string, error) {
	dir, err := stateDir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", exit(exitUnavailable, "default store: %w: set --url or COORD_URL", err)
	}
	path := filepath.ToSlash(dir)
	if path[0] != '/' {
		path = "/" + path // C:/…
	}
	return (&url.URL{Scheme: "file", Path: path}).String(), nil
}

// stateDir is $XDG_STATE_HOME/coord; a relative XDG_STATE_HOME counts as unset, as its
// specification wants.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "coord"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", exit(exitUnavailable, "default store: %w: set --url or COORD_URL", err)
	}
	return filepath.Join(home, ".local", "state", "coord"), nil
}

// open opens a store that is shared with others. The caller closes the client.
func (a *app) open(ctx context.Context) (*config.Client, error) {
	cfg, err := a.store.loadShared()
	if err != nil {
		return nil, err
	}
	return openConfig(ctx, cfg)
}

func openConfig(ctx context.Context, cfg *config.Config, opts ...coord.Option) (*config.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	client, err := cfg.Open(ctx, opts...)
	if err != nil {
		if errors.Is(err, coord.ErrUnavailable) {
			return nil, fmt.Errorf("%w: check --url or COORD_URL, and that the store runs", err)
		}
		return nil, err
	}
	return client, nil
}

// closeInto closes client and adds what went wrong to err.
func closeInto(client interface{ Close() error }, err *error) {
	if cerr := client.Close(); cerr != nil && *err == nil {
		*err = cerr
	}
}
