package config

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Serve is the section serve: how package server and the command coord serve give the store to other languages.
type Serve struct {
	// Listen is host:port, or unix:PATH; "" is [DefaultListen].
	Listen string
	// GRPCListen is the address for gRPC, in the form of Listen; "" is none.
	GRPCListen string
	// Certificate and Key are files of TLS; ClientCA signs the certificates of callers.
	Certificate, Key, ClientCA string
	// Plaintext allows other machines to connect without TLS.
	Plaintext bool
	// AdHocLimits allows limits that the file does not have.
	AdHocLimits bool
	// Page is what the page for people at "/" does; "" is [PageRead].
	Page Page
	// Callers are who may do what; without any, everybody who can connect has all rights but Break.
	Callers []Caller
	// MaxWait bounds the wait of a request, Drain that for remote holders at the end.
	MaxWait, Drain time.Duration
	// MaxHolds and MaxRequests bound what a caller holds, and has under way, at once; MaxConnections is for all callers,
	// at each address.
	MaxHolds, MaxRequests, MaxConnections int
	// Envoy is for package server/envoy.
	Envoy Envoy
}

// Caller is who shows a token or a certificate.
type Caller struct {
	Name        string
	Token       Secret // or a reference to it
	Certificate string // a name that the certificate is for
	Allow       []Allow
}

// Allow gives rights on all keys with a prefix.
type Allow struct {
	Prefix string
	Rights []Right
}

// Page is what the page for people does.
type Page string

// What the page does.
const (
	PageNone Page = "none" // there is no page
	PageRead Page = "read" // it shows locks, limits and the store
	PageAct  Page = "act"  // it also breaks locks and resets limits, for callers with the right Break
)

// Right is what a caller may do.
type Right string

// The rights.
const (
	Read  Right = "read"  // inspect, list and watch locks, and peek at limits
	Take  Right = "take"  // take, reserve and charge permits
	Locks Right = "lock"  // hold locks
	Break Right = "break" // break locks, and reset limits
)

// The defaults of Serve.
const (
	DefaultListen  = "127.0.0.1:8470"
	DefaultMaxWait = time.Minute
	DefaultDrain   = 30 * time.Second

	DefaultMaxHolds, DefaultMaxRequests, DefaultMaxConnections = 1000, 256, 10_000
)

// Secret is a text that no way of printing shows.
type Secret string

// String hides the secret.
func (s Secret) String() string { return "xxxxx" }

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// MarshalText is String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// WithDefaults is s with the defaults in place of what is not set.
func (s Serve) WithDefaults() Serve {
	s.Listen = cmp.Or(s.Listen, DefaultListen)
	s.MaxWait, s.Drain = cmp.Or(s.MaxWait, DefaultMaxWait), cmp.Or(s.Drain, DefaultDrain)
	s.MaxHolds, s.MaxRequests = cmp.Or(s.MaxHolds, DefaultMaxHolds), cmp.Or(s.MaxRequests, DefaultMaxRequests)
	s.Page = cmp.Or(s.Page, PageRead)
	s.MaxConnections = cmp.Or(s.MaxConnections, DefaultMaxConnections)
	return s
}

// Local reports whether only this machine can connect.
func (s Serve) Local() bool {
	return local(cmp.Or(s.Listen, DefaultListen)) && (s.GRPCListen == "" || local(s.GRPCListen))
}

func local(listen string) bool {
	if strings.HasPrefix(listen, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(listen)
	ip, aerr := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || aerr == nil && ip.IsLoopback())
}

// Envoy is the section serve.envoy: Envoy's rate-limit service.
type Envoy struct {
	// Files of envoyproxy/ratelimit, and directories of them. Without any there is no such service.
	Files []string
	// MergeDomains lets several files have limits of one domain.
	MergeDomains bool
	// Shadow lets every request in, and Quota has all rules in quota mode.
	Shadow, Quota bool
	// Headers and Metadata say in answers which limit is nearest, and what was asked.
	Headers, Metadata bool
}

// minToken is the least that a token has, in bytes.
const minToken = 16

// Tokens gives the token of each caller that has one, by the name of the caller. References are looked up.
func (c *Config) Tokens(ctx context.Context) (map[string]string, error) {
	tokens := make(map[string]string)
	for i, caller := range c.Serve.Callers {
		if caller.Token == "" {
			continue
		}
		token := string(caller.Token)
		key := fmt.Sprintf("serve.callers.%d.token", i)
		if name, ok := strings.CutPrefix(token, "${"); ok {
			var err error
			if token, err = look(ctx, strings.TrimSuffix(name, "}"), c.lookup); err != nil {
				return nil, c.places[key].mistake(key, string(caller.Token)+": "+err.Error())
			}
		}
		if len(token) < minToken {
			return nil, c.places[key].mistake(key, fmt.Sprintf("%d bytes: want %d or more", len(token), minToken))
		}
		tokens[caller.Name] = token
	}
	return tokens, nil
}

// serveClash finds what cannot stand together in the section.
func (c *Config) serveClash() error {
	s := c.Serve
	bad := func(key, problem string) error { return c.places["serve."+key].mistake("serve."+key, problem) }
	switch {
	case (s.Certificate == "") != (s.Key == ""):
		return bad("tls", "certificate or key alone: want both")
	case s.ClientCA != "" && s.Certificate == "":
		return bad("tls", "client_ca without certificate and key")
	case s.ClientCA != "" && len(s.Callers) == 0:
		return bad("tls", "client_ca without callers lets everybody in: want callers")
	case s.Page == PageAct && len(s.Callers) == 0:
		return bad("page", "act without callers: nobody has the right break: want callers")
	}
	for _, at := range [][2]string{{"listen", cmp.Or(s.Listen, DefaultListen)}, {"grpc_listen", s.GRPCListen}} {
		key, listen := at[0], at[1]
		switch {
		case listen == "" || local(listen):
		case len(s.Callers) == 0:
			return bad(key, fmt.Sprintf("%s: other machines can connect: want callers", show(listen)))
		case s.Certificate == "" && !s.Plaintext:
			return bad(key, fmt.Sprintf("%s: other machines can connect: want tls, or plaintext: true", show(listen)))
		}
	}
	for i, caller := range s.Callers {
		if key := fmt.Sprintf("callers.%d", i); caller.Certificate != "" && s.ClientCA == "" {
			return bad(key, "a certificate without tls.client_ca")
		}
	}
	return nil
}

// serveValues are those of the section, if there is one.
func (c *Config) serveValues() (list []Value) {
	if reflect.DeepEqual(c.Serve, Serve{}) {
		return nil
	}
	s := c.Serve.WithDefaults()
	add := func(key string, value any) { list = append(list, c.value("serve."+key, fmt.Sprint(value))) }
	add("listen", s.Listen)
	if s.GRPCListen != "" {
		add("grpc_listen", s.GRPCListen)
	}
	add("plaintext", s.Plaintext)
	add("ad_hoc_limits", s.AdHocLimits)
	add("page", s.Page)
	add("max_wait", s.MaxWait)
	add("drain", s.Drain)
	add("max_holds", s.MaxHolds)
	add("max_requests", s.MaxRequests)
	add("max_connections", s.MaxConnections)
	if s.Certificate != "" {
		add("tls", strings.TrimSpace(s.Certificate+" "+s.ClientCA))
	}
	if e := s.Envoy; len(e.Files) > 0 {
		add("envoy.files", strings.Join(e.Files, " "))
		add("envoy.merge_domains", e.MergeDomains)
		add("envoy.shadow", e.Shadow)
		add("envoy.quota", e.Quota)
		add("envoy.headers", e.Headers)
		add("envoy.metadata", e.Metadata)
	}
	for i, caller := range s.Callers {
		list = append(list, c.value(fmt.Sprintf("serve.callers.%d", i), describeCaller(caller)))
	}
	return list
}

// sameServe refuses a section that differs in more than who its callers are.
func (c *Config) sameServe(next *Config) error {
	old, now := c.Serve, next.Serve
	both := len(old.Callers) > 0 && len(now.Callers) > 0
	if both {
		old.Callers, now.Callers = nil, nil
	}
	if reflect.DeepEqual(old, now) {
		return nil
	}
	at := next.places["serve"]
	if at.file == "" {
		at.file = next.name
	}
	return at.mistake("serve", "other values: only limits, rules and who the callers are change without a restart")
}

// describeCaller is a caller in one line: "web: lock, take on shop/; read on everything".
func describeCaller(c Caller) string {
	var parts []string
	for _, a := range c.Allow {
		names := make([]string, len(a.Rights))
		for i, r := range a.Rights {
			names[i] = string(r)
		}
		parts = append(parts, strings.Join(names, ", ")+" on "+cmp.Or(a.Prefix, "everything"))
	}
	return c.Name + ": " + strings.Join(parts, "; ")
}

// allRights are the rights in the order of their dangers.
var allRights = []Right{Read, Take, Locks, Break}

func rightNames() string {
	var names []string
	for _, r := range allRights {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

func isRight(name string) bool { return slices.Contains(allRights, Right(name)) }
