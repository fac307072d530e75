package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/coordgo/coord/config"
)

// caller is who makes requests, and what it has under way.
type caller struct {
	name     string // "" is everybody, where the configuration has no callers
	allow    []config.Allow
	requests atomic.Int64
	holds    int     // with attempts and reservations, guarded by Server.mu
	ended    []*hold // the oldest first, guarded by Server.mu
}

// may is nil if the caller has the right on the key. With a prefix for a key, it is the right on all keys that begin
// so.
func (c *caller) may(right config.Right, key string) error {
	for _, a := range c.allow {
		if strings.HasPrefix(key, a.Prefix) && slices.Contains(a.Rights, right) {
			return nil
		}
	}
	return &failure{http.StatusForbidden, "forbidden", fmt.Sprintf("%q: this caller has not the right %s", key, right)}
}

// callers find the caller of a request.
type callers struct {
	everybody     *caller // nil if the configuration has callers
	byToken       map[[sha256.Size]byte]*caller
	byCertificate map[string]*caller
	browsers      *http.CrossOriginProtection
}

func newCallers(ctx context.Context, cfg *config.Config) (cs callers, err error) {
	tokens, err := cfg.Tokens(ctx)
	if err != nil {
		return cs, err
	}
	cs.byToken, cs.byCertificate = make(map[[sha256.Size]byte]*caller), make(map[string]*caller)
	cs.browsers = http.NewCrossOriginProtection()
	for _, given := range cfg.Serve.Callers {
		c := &caller{name: given.Name, allow: given.Allow}
		if given.Certificate != "" {
			cs.byCertificate[given.Certificate] = c
			continue
		}
		sum := sha256.Sum256([]byte(tokens[given.Name]))
		if other := cs.byToken[sum]; other != nil {
			return cs, fmt.Errorf("serve.callers: %s and %s have one token", other.name, c.name)
		}
		cs.byToken[sum] = c
	}
	if len(cfg.Serve.Callers) == 0 {
		cs.everybody = &caller{allow: []config.Allow{{Rights: []config.Right{config.Read, config.Take, config.Locks}}}}
	}
	return cs, nil
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
		if c := cs.byToken[sha256.Sum256([]byte(token))]; c != nil {
			return c, nil
		}
		return nil, errToken
	}
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

// ownHost reports whether no name server had a say in the name under which the caller knows this server.
func ownHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || host == "localhost"
}
