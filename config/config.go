package config

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// EnvURL is the environment variable that replaces the key url.
const EnvURL = "COORD_URL"

// Config is what a file says, checked.
type Config struct {
	// URL of the store; "" if neither the file nor the environment has one.
	URL URL
	// Prefix of every key.
	Prefix string
	// Require lists the claims that the store must make.
	Require []driver.Claim
	// FailurePolicy of limits.
	FailurePolicy coord.FailurePolicy
	// Lock has the defaults of locks.
	Lock Lock
	// Limits by name.
	Limits map[string]coord.Limit

	file string
}

// Lock has the defaults of locks. A zero duration is not set.
type Lock struct {
	TTL, Wait, MaxHold, MinHold time.Duration
}

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// Load reads the file and applies the environment. A file that cannot be read is
// an error of package os; a mistake in it, or in COORD_URL, is an [*Error].
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := readAtMost(f, maxFile)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	c, err := Parse(path, text)
	if err != nil {
		return nil, err
	}
	if u := os.Getenv(EnvURL); u != "" {
		return c, c.SetURL(EnvURL, u)
	}
	return c, nil
}

// SetURL replaces the URL by one that came from elsewhere; source names that place
// in the error. It is refused, and the Config left as it was, if it is not a
// URL or names another prefix than the file does.
func (c *Config) SetURL(source, rawURL string) error {
	u := URL(rawURL)
	problem := u.problem()
	if p := u.prefix(); problem == "" && p != "" && c.Prefix != "" && p != c.Prefix {
		problem = fmt.Sprintf("prefix %q contradicts %q in %s: set one of them", p, c.Prefix, c.file)
	}
	if problem != "" {
		return &Error{File: source, Problem: problem}
	}
	c.URL = u
	return nil
}

// Limit gives the limit of that name. An unknown name is ErrInvalid, and the
// message lists those that there are.
func (c *Config) Limit(name string) (coord.Limit, error) {
	if l, ok := c.Limits[name]; ok {
		return l, nil
	}
	known := "it has no limits"
	if len(c.Limits) > 0 {
		known = "want one of " + strings.Join(slices.Sorted(maps.Keys(c.Limits)), ", ")
	}
	return coord.Limit{}, &Error{File: c.file, Key: "limits", Problem: fmt.Sprintf("no limit %q: %s", name, known)}
}

// Options are the options of a Client that the Config comes to.
func (c *Config) Options() []coord.Option {
	opts := []coord.Option{coord.WithFailurePolicy(c.FailurePolicy)}
	if c.Prefix != "" {
		opts = append(opts, coord.WithPrefix(c.Prefix))
	}
	if len(c.Require) > 0 {
		opts = append(opts, coord.WithRequired(c.Require...))
	}
	if defaults := c.Lock.options(); len(defaults) > 0 {
		opts = append(opts, coord.WithLockDefaults(defaults...))
	}
	return opts
}

func (l Lock) options() []coord.LockOption {
	var opts []coord.LockOption
	for _, o := range [...]struct {
		value  time.Duration
		option func(time.Duration) coord.LockOption
	}{
		{l.TTL, coord.TTL}, {l.Wait, coord.WaitAtMost}, {l.MaxHold, coord.MaxHold}, {l.MinHold, coord.MinHold},
	} {
		if o.value > 0 {
			opts = append(opts, o.option(o.value))
		}
	}
	return opts
}

// Open opens the store within ctx. opts come after the options of the Config
// and so win over them. The program imports the backends: see [coord.Open].
func (c *Config) Open(ctx context.Context, opts ...coord.Option) (*Client, error) {
	if c.URL == "" {
		return nil, &Error{File: c.file, Key: "url", Problem: "no store: set url, or " + EnvURL + " in the environment"}
	}
	client, err := coord.Open(ctx, string(c.URL), slices.Concat(c.Options(), opts)...)
	if err != nil {
		return nil, err
	}
	return &Client{Client: client, config: c}, nil
}

// Client is a [coord.Client] that knows the limits of its configuration by name.
type Client struct {
	*coord.Client
	config *Config
}

// Open loads the file and opens the store that it names. Close the Client.
func Open(ctx context.Context, path string, opts ...coord.Option) (*Client, error) {
	c, err := Load(path)
	if err != nil {
		return nil, err
	}
	return c.Open(ctx, opts...)
}

// Limit gives the limit of that name; see [Config.Limit].
func (c *Client) Limit(name string) (coord.Limit, error) { return c.config.Limit(name) }
