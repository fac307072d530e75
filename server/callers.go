package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coordgo/coord/config"
)

// caller is who makes requests, and what it has under way.
type caller struct {
	name     string // "" is everybody, where the configuration has no callers
	allow    atomic.Pointer[[]config.Allow]
	requests atomic.Int64
	pages    atomic.Int64 // that are open
	holds    int          // with attempts and reservations, guarded by Server.mu
	ended    []*hold      // the oldest first, guarded by Server.mu
}

// called is the name of a hold: the caller's, so that an operator knows whose it is, and what the caller calls it.
func (c *caller) called(name string) string {
	if c.name != "" && name != "" {
		return c.name + "/" + name
	}
	return cmp.Or(c.name, name)
}

func newCaller(name string, allow ...config.Allow) *caller {
	c := &caller{name: name}
	c.allow.Store(&allow)
	return c
}

// rights are those of now.
func (c *caller) rights() []config.Allow {
	if allow := c.allow.Load(); allow != nil {
		return *allow
	}
	return nil
}

// gone reports whether the configuration has the caller no more, so that its streams end.
func (c *caller) gone() bool { return len(c.rights()) == 0 }

// may is nil if the caller has the right on the key. With a prefix for a key, it is the right on all keys that begin
// so.
func (c *caller) may(right config.Right, key string) error {
	for _, a := range c.rights() {
		if strings.HasPrefix(key, a.Prefix) && slices.Contains(a.Rights, right) {
			return nil
		}
	}
	return &failure{http.StatusForbidden, "forbidden", fmt.Sprintf("%q: this caller has not the right %s", key, right)}
}

// reads are how the keys begin that the caller may read; "" alone is all.
func (c *caller) reads() (list []string) {
	for _, a := range c.rights() {
		if slices.Contains(a.Rights, config.Read) {
			list = append(list, a.Prefix)
		}
	}
	slices.Sort(list)
	if len(list) > 0 && list[0] == "" {
		return list[:1]
	}
	return slices.Compact(list)
}

// sum is a secret as this process keeps it.
type sum = [sha256.Size]byte

func sumOf(secret string) sum { return sha256.Sum256([]byte(secret)) }

// callers find the caller of a request.
type callers struct {
	everybody *caller // nil if the configuration has callers
	browsers  *http.CrossOriginProtection

	mu            sync.RWMutex // guards what follows
	byToken       map[sum]*caller
	byCertificate map[string]*caller
	tokens        sum
	news          chan struct{} // closed by the next reload
}

func newCallers(ctx context.Context, cfg *config.Config) (*callers, error) {
	cs := &callers{browsers: http.NewCrossOriginProtection(), news: make(chan struct{})}
	if len(cfg.Serve.Callers) == 0 {
		cs.everybody = newCaller("", config.Allow{Rights: []config.Right{config.Read, config.Take, config.Locks}})
	}
	tokens, err := cfg.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	return cs, cs.take(cfg, tokens)
}

// take makes the callers of a configuration with their tokens those in force. Those that stay keep what they hold. After an
// error nothing has changed.
func (cs *callers) take(cfg *config.Config, tokens map[string]string) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	known := make(map[string]*caller)
	for _, of := range []iter.Seq[*caller]{maps.Values(cs.byToken), maps.Values(cs.byCertificate)} {
		for c := range of {
			known[c.name] = c
		}
	}
	byToken, byCertificate := make(map[sum]*caller), make(map[string]*caller)
	for _, given := range cfg.Serve.Callers {
		c := cmp.Or(known[given.Name], newCaller(given.Name))
		known[given.Name] = c
		if given.Certificate != "" {
			byCertificate[given.Certificate] = c
			continue
		}
		token := sumOf(tokens[given.Name])
		if other := byToken[token]; other != nil {
			return fmt.Errorf("serve.callers: %s and %s have one token", other.name, c.name)
		}
		byToken[token] = c
	}
	for _, given := range cfg.Serve.Callers {
		known[given.Name].allow.Store(&given.Allow)
		delete(known, given.Name)
	}
	for _, gone := range known {
		gone.allow.Store(nil)
	}
	cs.byToken, cs.byCertificate, cs.tokens = byToken, byCertificate, sumOfTokens(tokens)
	close(cs.news)
	cs.news = make(chan struct{})
	return nil
}

// inForce is the sum of the tokens.
func (cs *callers) inForce() sum {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return cs.tokens
}

// reloaded is a channel that the next reload closes.
func (cs *callers) reloaded() <-chan struct{} {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return cs.news
}

// of is the caller of r. A page that a browser shows cannot be one: it could make requests of a person who has not
// asked for it.
func (cs *callers) of(r *http.Request) (*caller, error) {
	if err := cs.browsers.Check(r); err != nil {
		return nil, &failure{http.StatusForbidden, "forbidden", err.Error()}
	}
	// The check lets every GET pass, and a page can hold streams open.
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return nil, &failure{http.StatusForbidden, "forbidden", "a page of another site asks"}
	}
	return cs.known(r.Host, r.Header.Get("Authorization"), r.TLS)
}

// known is the caller that shows this, and knows the server by the name host.
func (cs *callers) known(host, authorization string, over *tls.ConnectionState) (*caller, error) {
	if cs.everybody != nil {
		if !ownHost(host) {
			return nil, &failure{http.StatusForbidden, "forbidden", "Host: want localhost or an address, or callers with tokens in the configuration"}
		}
		return cs.everybody, nil
	}
	if token, ok := strings.CutPrefix(authorization, "Bearer "); ok {
		if c := cs.withToken(token); c != nil {
			return c, nil
		}
		return nil, errToken
	}
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	if over != nil && len(over.VerifiedChains) > 0 {
		leaf := over.VerifiedChains[0][0]
		for _, name := range append(slices.Clip(leaf.DNSNames), leaf.Subject.CommonName) {
			if c := cs.byCertificate[name]; c != nil {
				return c, nil
			}
		}
	}
	return nil, errToken
}

// withToken is the caller that has this token; nil: nobody.
func (cs *callers) withToken(token string) *caller { return cs.withSum(sumOf(token)) }

// withSum is withToken of the sum of a token.
func (cs *callers) withSum(token sum) *caller {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return cs.byToken[token]
}

// ownHost reports whether no name server had a say in the name under which the caller knows this server.
func ownHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || host == "localhost"
}
