package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/quorum"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/errs"
	"github.com/coordgo/coord/rules"
)

// Client is a [coord.Client] that knows the limits and rules of its configuration. It is safe
// for concurrent use.
type Client struct {
	*coord.Client
	current   atomic.Pointer[Config]
	reloading sync.Mutex
}

// Open loads the file and opens the store that it names. Close the Client.
func Open(ctx context.Context, path string, opts ...coord.Option) (*Client, error) {
	c, err := LoadEnv(ctx, path, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	return c.Open(ctx, opts...)
}

// Open opens the store, or both, within ctx. opts come after the options of the Config
// and so win over them. The program imports the backends: see [coord.Open].
func (c *Config) Open(ctx context.Context, opts ...coord.Option) (*Client, error) {
	opts = slices.Concat(c.Options(), opts)
	var client *coord.Client
	var err error
	switch {
	case len(c.Quorum) > 0:
		client, err = c.openQuorum(ctx, opts)
	case c.LocksURL != "" && c.LimitsURL != "":
		client, err = c.openTwo(ctx, opts)
	case c.URL != "":
		client, err = c.openOne(ctx, opts)
	default:
		err = &Error{File: c.name, Key: "url", Problem: "no store: set url, or " + EnvURL + " in the environment"}
	}
	if err != nil {
		return nil, err
	}
	out := &Client{Client: client}
	if err := out.servable(ctx, c); err != nil {
		return nil, closing(err, client)
	}
	current := *c
	out.current.Store(&current)
	return out, nil
}

func (c *Config) openOne(ctx context.Context, opts []coord.Option) (*coord.Client, error) {
	raw, err := c.resolved(ctx, "url", c.URL)
	if err != nil {
		return nil, err
	}
	return coord.Open(ctx, raw, opts...)
}

func (c *Config) openTwo(ctx context.Context, opts []coord.Option) (*coord.Client, error) {
	lockURL, err := c.resolved(ctx, "url.locks", c.LocksURL)
	if err != nil {
		return nil, err
	}
	limitURL, err := c.resolved(ctx, "url.limits", c.LimitsURL)
	if err != nil {
		return nil, err
	}
	locks, prefix, err := openStore(ctx, lockURL)
	if err != nil {
		return nil, err
	}
	return openHalves(ctx, locks, prefix, limitURL, opts)
}

func (c *Config) openQuorum(ctx context.Context, opts []coord.Option) (*coord.Client, error) {
	raw, err := make([]string, len(c.Quorum)), error(nil)
	for i, u := range c.Quorum {
		if raw[i], err = c.resolved(ctx, join("quorum", strconv.Itoa(i)), u); err != nil {
			return nil, err
		}
	}
	limitURL := ""
	if c.URL != "" {
		if limitURL, err = c.resolved(ctx, "url", c.URL); err != nil {
			return nil, err
		}
	}
	locks, prefix, err := quorum.Open(ctx, raw...)
	if err != nil {
		return nil, &coord.Error{Op: "open", Backend: "quorum", Err: err}
	}
	return openHalves(ctx, locks, prefix, limitURL, opts)
}

// openHalves makes a client of a store of locks, and one of limits where there is a URL.
func openHalves(ctx context.Context, locks driver.Backend, prefix, limitURL string, opts []coord.Option) (*coord.Client, error) {
	if limitURL == "" {
		return newClient(locks, prefix, opts)
	}
	limits, other, err := openStore(ctx, limitURL)
	if err != nil {
		return nil, closing(err, locks)
	}
	if prefix == "" {
		prefix = other // if both have one, it is the same
	}
	return newClient(driver.Split(locks, limits), prefix, opts)
}

func openStore(ctx context.Context, raw string) (driver.Backend, string, error) {
	b, prefix, err := driver.Open(ctx, raw)
	if err != nil {
		err = &coord.Error{Op: "open " + driver.RedactURL(raw), Err: errs.OfStore(ctx, err, false)}
	}
	return b, prefix, err
}

func newClient(b driver.Backend, prefix string, opts []coord.Option) (*coord.Client, error) {
	if prefix != "" {
		opts = append([]coord.Option{coord.WithPrefix(prefix)}, opts...)
	}
	client, err := coord.New(b, opts...)
	if err != nil {
		return nil, closing(err, b)
	}
	return client, nil
}

// closing is err, and what goes wrong in closing what was opened before it.
func closing(err error, c io.Closer) error {
	if cerr := c.Close(); cerr != nil {
		return errors.Join(err, cerr)
	}
	return err
}

// resolved is u with the secrets that it refers to.
func (c *Config) resolved(ctx context.Context, key string, u URL) (string, error) {
	raw, err := u.resolve(ctx, c.lookup)
	if err != nil && ctx.Err() != nil { // no mistake of the file
		return "", fmt.Errorf("%s: %w", key, err)
	}
	if err != nil {
		return "", c.places[key].mistake(key, err.Error())
	}
	return raw, nil
}

// servable refuses rules that the client cannot serve, where that is certain: it is
// better known now than at the first request.
func (c *Client) servable(ctx context.Context, next *Config) error {
	// Without demands nothing is asked of the store; it only says whether it could be.
	if _, err := c.AllowAll(ctx); !errors.Is(err, coord.ErrUnsupported) {
		return nil
	}
	for _, r := range next.Rules.Rules() {
		chain := next.Rules
		if r.Shadow { // its limits are taken by themselves
			r.Shadow = false
			chain, _ = rules.New(r) // it is a rule of a chain
		}
		for _, request := range examples(r.Match) {
			bounds := chain.Bounds(&request)
			if len(bounds) < 2 {
				continue
			}
			key := join("rules", r.Name)
			return next.places[key].mistake(key, fmt.Sprintf(
				"%s meets %d limits, of %s, and %s cannot take them in one step (it does not claim %s): set best_effort: true, or let one limit apply",
				describeRequest(&request), len(bounds), strings.Join(ruleNames(bounds), " and "), c.Info().Name, driver.AtomicMulti))
		}
	}
	return nil
}

func ruleNames(bounds []rules.Bound) []string {
	var names []string
	for _, b := range bounds {
		if !slices.Contains(names, b.Rule) {
			names = append(names, b.Rule)
		}
	}
	return names
}

// Limit gives the limit of that name, as it is now; see [Config.Limit] and [Client.Reload].
func (c *Client) Limit(name string) (coord.Limit, error) { return c.current.Load().Limit(name) }

// Rules gives the chain of rules as it is now. Ask for it at every request, and a Reload
// is seen.
func (c *Client) Rules() *rules.Chain { return c.current.Load().Rules }

// Config gives the configuration that is in force. It is not to be changed.
func (c *Client) Config() *Config { return c.current.Load() }
