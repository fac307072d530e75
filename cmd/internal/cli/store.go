package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
)

// storeFlags say which store to use.
type storeFlags struct {
	url, file string
	local     bool // the store is that of this user on this machine
	env       func(name string) (value string, set bool)
	names     func() []string // of all variables of the environment
}

// openTime bounds how long a command waits for its store to answer the first time.
const openTime = 10 * time.Second

// load gives the configuration that the flags, the environment and the file come to, which has a store.
func (f storeFlags) load(ctx context.Context) (*config.Config, error) {
	cfg, err := f.loadAny(ctx)
	if err == nil && len(cfg.Stores()) == 0 {
		return nil, f.noStore()
	}
	return cfg, err
}

// loadAny is load of a configuration that may have no store.
func (f storeFlags) loadAny(ctx context.Context) (*config.Config, error) {
	if f.local && f.url != "" {
		return nil, Usage("--local beside a URL: give one of them")
	}
	cfg, err := f.loadFile(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case f.local:
		var home string
		if home, err = f.stateURL(); err == nil {
			err = cfg.SetURL("--local", home)
		}
	case f.url != "":
		if err = cfg.SetURL("--url", f.url); err != nil {
			err = Exit(ExitUsage, "%w", err)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, u := range cfg.Stores() {
		if err := knownScheme(u); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

// noStore says how to name a store, and which variable may have been meant for it.
func (f storeFlags) noStore() error {
	hint := ""
	for _, name := range f.names() {
		if value, _ := f.env(name); value != "" && nearURL(name) {
			hint = fmt.Sprintf("; %s is set: did you mean %s?", name, config.EnvURL)
		}
	}
	return Usage("no store: give --url, %s, or --config with a file that has a url; or --local, which keeps out processes of this machine alone%s", config.EnvURL, hint)
}

// nearURL reports whether a variable of the environment is COORD_URL but for a slip.
func nearURL(name string) bool {
	known, _ := config.EnvVariables()
	if !strings.HasPrefix(strings.ToUpper(name), "CO") || slices.Contains(known, name) {
		return false
	}
	names := cobra.Command{SuggestionsMinimumDistance: 2}
	names.AddCommand(&cobra.Command{Use: config.EnvURL, Run: func(*cobra.Command, []string) {}})
	return len(names.SuggestionsFor(name)) > 0
}

// knownScheme refuses a store that is not in this program.
func knownScheme(u config.URL) error {
	if known := driver.Schemes(); !slices.Contains(known, scheme(u)) {
		return Usage("no store %s://: want one of %s", scheme(u), list(known))
	}
	return nil
}

func scheme(u config.URL) string {
	s, _, _ := strings.Cut(string(u), "://")
	return s
}

// loadOne is load for commands that want one store.
func (f storeFlags) loadOne(ctx context.Context) (*config.Config, error) {
	cfg, err := f.load(ctx)
	if err == nil && len(cfg.Stores()) != 1 {
		return nil, Usage("two stores: give the URL of one of them")
	}
	return cfg, err
}

// loadShared is load for commands that meet other processes at the store.
func (f storeFlags) loadShared(ctx context.Context) (*config.Config, error) {
	cfg, err := f.load(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range cfg.Stores() {
		if all.Claims(scheme(u)).Has(driver.ScopeProcess) {
			return nil, Usage("a %s:// store is each process's own, and would keep nobody out: want another store", scheme(u))
		}
	}
	return cfg, nil
}

// withArg takes the URL that a command may be given as its argument.
func (f storeFlags) withArg(args []string) (storeFlags, error) {
	switch {
	case len(args) > 1:
		return f, Usage("unexpected argument %q: want one URL", args[1])
	case len(args) == 1 && f.url != "":
		return f, Usage("a URL beside --url: give one of them")
	case len(args) == 1:
		f.url = args[0]
	}
	return f, nil
}

// withFile takes the FILE that a command may be given as its argument.
func (f storeFlags) withFile(args []string) (storeFlags, error) {
	switch {
	case len(args) > 1:
		return f, Usage("unexpected argument %q: want one FILE", args[1])
	case len(args) == 1 && f.file != "":
		return f, Usage("a FILE beside --config: give one of them")
	case len(args) == 1:
		f.file = args[0]
	}
	return f, nil
}

// chosen reports whether the user has named a store.
func (f storeFlags) chosen() bool {
	return f.local || f.url != "" || f.file != "" || slices.ContainsFunc(urlVariables(), func(v string) bool { value, _ := f.env(v); return value != "" })
}

// urlVariables are those variables of the environment that --url and --local override.
func urlVariables() []string {
	variables, _ := config.EnvVariables()
	return slices.DeleteFunc(variables, func(v string) bool { return !strings.HasPrefix(v, config.EnvURL) })
}

// loadFile gives what the file and the environment say; without a file, the environment alone.
func (f storeFlags) loadFile(ctx context.Context) (*config.Config, error) {
	cfg, err := config.LoadEnv(ctx, f.file, func(name string) (string, bool) {
		if (f.local || f.url != "") && slices.Contains(urlVariables(), name) {
			return "", false
		}
		return f.env(name)
	})
	var mistake *config.Error
	if err != nil && ctx.Err() != nil {
		return nil, Cause(ctx, err)
	}
	if err != nil && !errors.As(err, &mistake) {
		return nil, Exit(ExitConfig, "--config: %w", err)
	}
	return cfg, err
}

// home is the directory of the user.
func (f storeFlags) home() (string, error) {
	name := "HOME"
	if runtime.GOOS == "windows" {
		name = "USERPROFILE"
	}
	if dir, _ := f.env(name); dir != "" {
		return dir, nil
	}
	return "", errors.New(name + " is not set")
}

// stateURL is the store of this user on this machine, and makes its parent.
func (f storeFlags) stateURL() (string, error) {
	dir, err := f.stateDir()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", Exit(ExitUnavailable, "--local: %w: set --url or COORD_URL", err)
	}
	path := filepath.ToSlash(dir)
	if path[0] != '/' {
		path = "/" + path // C:/…
	}
	return (&url.URL{Scheme: "file", Path: path}).String(), nil
}

// stateDir is $XDG_STATE_HOME/coord; a relative XDG_STATE_HOME counts as unset, as its
// specification wants.
func (f storeFlags) stateDir() (string, error) {
	if dir, _ := f.env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "coord"), nil
	}
	home, err := f.home()
	if err != nil {
		return "", Exit(ExitUnavailable, "--local: %w: set --url or COORD_URL", err)
	}
	return filepath.Join(home, ".local", "state", "coord"), nil
}

// StoreOf gives the configuration of the one store that a command is about: that of its argument or of the flags.
func (a *App) StoreOf(cmd *cobra.Command, args []string) (*config.Config, error) {
	flags, err := a.store.withArg(args)
	if err != nil {
		return nil, err
	}
	if !flags.chosen() {
		return nil, Usage("no URL: see %s --help", cmd.CommandPath())
	}
	return flags.loadOne(cmd.Context())
}

// open opens a store that is shared with others. The caller closes the client.
func (a *App) open(ctx context.Context) (*config.Client, error) {
	cfg, err := a.store.loadShared(ctx)
	if err != nil {
		return nil, err
	}
	return OpenConfig(ctx, cfg)
}

// OpenConfig opens the store that cfg names. The caller closes the client.
func OpenConfig(ctx context.Context, cfg *config.Config, opts ...coord.Option) (*config.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	client, err := cfg.Open(ctx, opts...)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) { // other errors say themselves what to look at
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
