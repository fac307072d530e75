package config

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/rules"
)

// Config is what a file and the environment say, checked.
type Config struct {
	// URL of the store; "" if nothing names one, or there are two.
	URL URL
	// LocksURL and LimitsURL are the stores of locks and of limits where these
	// are two: both are set then, and URL is not.
	LocksURL, LimitsURL URL
	// Quorum has the members of the store of locks where that is a quorum; URL is then the store of limits, if any.
	Quorum []URL
	// Prefix of every key; "" if there is none, or a URL names it.
	Prefix string
	// Require lists the claims that the store must make.
	Require []driver.Claim
	// FailurePolicy of limits.
	FailurePolicy coord.FailurePolicy
	// BestEffort takes several limits one after the other on a store that cannot
	// take them at once; see [coord.WithBestEffort].
	BestEffort bool
	// Overrides of limits that are in the store are applied; see [coord.WithOverrides].
	Overrides bool
	// Lock has the defaults of locks.
	Lock Lock
	// Limits by name.
	Limits map[string]coord.Limit
	// Leases says of which limits, by name, permits are taken in advance.
	Leases map[string]coord.PermitLease
	// Rules in order; never nil.
	Rules *rules.Chain
	// Serve is for package server.
	Serve Serve

	name   string // of the file, for messages
	path   string // of the file that Load has read, "" if none
	sum    sum    // of its content
	lookup func(string) (string, bool)
	set    bool             // SetURL was called
	places map[string]place // by key, of what is not a default
}

// Lock has the defaults of locks. A zero duration is not set.
type Lock struct {
	TTL, Wait, MaxHold, MinHold time.Duration
	Fair, NoRenew               bool
}

// sum is another one for each content of a file.
type sum = [sha256.Size]byte

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// Load reads the file and applies the environment. A file that cannot be read is
// an error of package os; a mistake in it or in the environment is an [*Error], and several are joined; see [Parse].
// Path "" is the environment alone.
func Load(path string) (*Config, error) {
	return LoadEnv(context.Background(), path, os.LookupEnv)
}

// LoadEnv is Load within ctx, with another environment. Reload and references to secrets use
// that environment too. The end of ctx is an error with its cause.
func LoadEnv(ctx context.Context, path string, lookup func(name string) (value string, set bool)) (*Config, error) {
	text, err := readFile(ctx, path)
	if err != nil {
		return nil, err
	}
	return loadText(path, text, lookup)
}

// loadText is LoadEnv of a file that was read.
func loadText(path string, text []byte, lookup func(string) (string, bool)) (*Config, error) {
	var wrong mistakes
	c, err := parse(path, text)
	wrong.add(err)
	c.path, c.sum, c.lookup = path, sha256.Sum256(text), lookup
	wrong.add(c.environment(lookup))
	if len(wrong) == 0 {
		wrong.add(c.contradiction())
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	return c, nil
}

func readFile(ctx context.Context, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	return readWithin(ctx, path, maxFile)
}

// readWithin is readAtMost until ctx ends. A FIFO that nobody writes to, or the server of a file
// system, may never answer. The goroutine ends when it does.
func readWithin(ctx context.Context, path string, limit int64) ([]byte, error) {
	type result struct {
		text []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		text, err := readAtMost(path, limit)
		read <- result{text, err}
	}()
	select {
	case r := <-read:
		return r.text, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("read %s: %w", path, context.Cause(ctx))
	}
}

// readAtMost reads the file, and refuses more than limit bytes.
func readAtMost(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := readAll(f, limit)
	err = errors.Join(err, f.Close())
	var known *fs.PathError
	if err != nil && !errors.As(err, &known) {
		err = fmt.Errorf("read %s: %w", path, err)
	}
	return text, err
}

// SetURL replaces the store, or both, by one that came from elsewhere; source names that
// place in errors. It is refused, and the Config left as it was, if it is not a
// URL or names another prefix than the file does.
func (c *Config) SetURL(source, rawURL string) error {
	next := *c
	next.places = maps.Clone(c.places)
	next.URL, next.LocksURL, next.LimitsURL, next.Quorum = URL(rawURL), "", "", nil
	next.set = true
	for _, key := range []string{"url.locks", "url.limits", "quorum"} {
		delete(next.places, key)
	}
	next.places["url"] = place{file: source, outside: true}
	if problem := next.URL.problem(); problem != "" {
		return &Error{File: source, Problem: problem}
	}
	if err := next.contradiction(); err != nil {
		return err
	}
	*c = next
	return nil
}

// Stores lists the store, or those of locks and of limits.
func (c *Config) Stores() []URL {
	switch {
	case len(c.Quorum) > 0 && c.URL != "":
		return append(slices.Clone(c.Quorum), c.URL)
	case len(c.Quorum) > 0:
		return slices.Clone(c.Quorum)
	case c.LocksURL != "":
		return []URL{c.LocksURL, c.LimitsURL}
	case c.URL != "":
		return []URL{c.URL}
	}
	return nil
}

// Limit gives the limit of that name. An unknown name is ErrInvalid, and the
// message lists those that there are.
func (c *Config) Limit(name string) (coord.Limit, error) {
	if l, ok := c.Limits[name]; ok {
		return l, nil
	}
	return coord.Limit{}, &Error{File: c.name, Key: "limits", Problem: c.noLimit(name)}
}

// noLimit says that there is no limit of that name, and which there are.
func (c *Config) noLimit(name string) string {
	known := "there are none"
	if len(c.Limits) > 0 {
		known = "want one of " + strings.Join(slices.Sorted(maps.Keys(c.Limits)), ", ")
	}
	return fmt.Sprintf("no limit %s: %s", show(name), known)
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
	if c.BestEffort {
		opts = append(opts, coord.WithBestEffort())
	}
	if c.Overrides {
		opts = append(opts, coord.WithOverrides())
	}
	for limit, lease := range c.leases() {
		opts = append(opts, coord.WithPermitLease(lease, limit))
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
	if l.Fair {
		opts = append(opts, coord.Fair())
	}
	if l.NoRenew {
		opts = append(opts, coord.NoRenew())
	}
	return opts
}

// contradiction finds values that cannot stand beside each other, wherever each of
// them is from.
func (c *Config) contradiction() error {
	var wrong mistakes
	wrong.add(c.prefixes())
	if len(c.Quorum) > 0 && c.LocksURL != "" {
		wrong.add(c.clash("quorum", "url.locks", "a second store of locks", "a second store of locks"))
	}
	wrong.add(c.leaseClash())
	wrong.add(c.serveClash())
	if l := c.Lock; l.MaxHold > 0 && l.MinHold > l.MaxHold {
		wrong.add(c.clash("lock.min_hold", "lock.max_hold",
			fmt.Sprintf("%v is above %v", l.MinHold, l.MaxHold), fmt.Sprintf("%v is below %v", l.MaxHold, l.MinHold)))
	}
	return wrong.err()
}

// prefixes holds those that the URLs name against each other and against the key.
func (c *Config) prefixes() error {
	all := []struct{ key, prefix string }{
		{"prefix", c.Prefix}, {"url", c.URL.prefix()}, {"url.locks", c.LocksURL.prefix()}, {"url.limits", c.LimitsURL.prefix()},
	}
	for i, u := range c.Quorum {
		all = append(all, struct{ key, prefix string }{join("quorum", strconv.Itoa(i)), u.prefix()})
	}
	one := all[0]
	for _, other := range all[1:] {
		switch {
		case other.prefix == "":
		case one.prefix == "":
			one = other
		case one.prefix != other.prefix:
			const text = "prefix %s contradicts prefix %s"
			return c.clash(one.key, other.key,
				fmt.Sprintf(text, show(one.prefix), show(other.prefix)), fmt.Sprintf(text, show(other.prefix), show(one.prefix)))
		}
	}
	return nil
}

// clash is the error of two keys that contradict each other. It is told of the first,
// unless the second alone is from outside of the file.
func (c *Config) clash(a, b, ofA, ofB string) error {
	problem := ofA
	if c.places[b].outside && !c.places[a].outside {
		a, b, problem = b, a, ofB
	}
	at, other := c.places[a], c.places[b]
	where := b
	if at.file != other.file {
		where = other.String()
	}
	return at.mistake(a, problem+" in "+where)
}
