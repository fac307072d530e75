package rules

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/coordgo/coord"
)

// Request is what rules look at. A request of HTTP has a Method and a Path, one of gRPC an
// RPC.
type Request struct {
	// Method of HTTP, in capitals.
	Method string
	// Path as it was sent, percent-encoded (url.URL.EscapedPath), so that an encoded
	// slash does not end a segment.
	Path string
	// RPC is the full name of a method of gRPC: "/package.Service/Method".
	RPC string
	// IP is the client's address, behind proxies that are trusted.
	IP netip.Addr
	// User is who the request is from, as authentication has found; "" is nobody: all of these count together.
	User string
	// NoUser says that the program looks no users up. A request that a rule counts by user is then ErrInvalid, or it would
	// count with all others.
	NoUser bool
	// Header gives the value of a header, or of metadata; "" if there is none. nil
	// is a request without headers.
	Header func(name string) string
	// Cookie gives the value of a cookie; "" if there is none. nil is a request without cookies.
	Cookie func(name string) string
	// Func gives the value of a function for [Func]; ok is false if there is no function of that name. nil
	// is a request without functions.
	Func func(name string) (value string, ok bool)
	// N is how many permits the request takes; 0 is 1.
	N int
}

// Subject says whose requests are counted together: one account for each value. Requests
// without a value, such as those without the header, share one account, so that
// leaving it out gains nothing.
type Subject struct {
	Kind Kind
	// Name of the header, the cookie, the variable of the path, the constant or the function.
	Name string
	// IPv6Bits is how much of an IPv6 address counts, 1 to 128; 0 is 64, for a
	// customer commonly has that many addresses.
	IPv6Bits int
	// Parts of a combination, see [Combine]; otherwise none.
	Parts []Subject
}

// Kind is what a Subject is taken from.
type Kind string

// The kinds.
const (
	KindEveryone Kind = "" // all requests are one subject
	KindIP       Kind = "ip"
	KindHeader   Kind = "header"
	KindUser     Kind = "user"
	KindAPIKey   Kind = "api-key" // a header whose value is a secret
	KindCookie   Kind = "cookie"
	KindPath     Kind = "path" // a variable of the path
	KindConstant Kind = "constant"
	KindFunc     Kind = "func"     // what a function of the program returns
	KindCombined Kind = "combined" // several subjects together
)

// kinds are those that have a value, and so can be parts of a combination.
const kinds = "ip, header, user, api-key, cookie, path, constant, func"

// Everyone counts all requests together. It is the zero Subject.
func Everyone() Subject { return Subject{} }

// IP counts by the client's address: an IPv4 address whole, also behind a translator (64:ff9b::/96), of an IPv6 address
// the first 64 bits.
func IP() Subject { return Subject{Kind: KindIP} }

// Header counts by the value of a header. A client can send any value, and each is an account of its own with full limits
// and some memory of the store until its limits are whole again: use a header that a proxy or authentication has checked, or count
// by address beside it. Of Authorization the case of the scheme, and of Host the port and the case make no difference. Of
// Authorization, Proxy-Authorization and Cookie the store sees only a hash, as with [APIKey].
func Header(name string) Subject { return Subject{Kind: KindHeader, Name: name} }

// User counts by [Request.User]. Chain.Allow answers ErrInvalid to a request with NoUser.
func User() Subject { return Subject{Kind: KindUser} }

// APIKey counts by the value of a header that is a secret: the store sees only its hash.
func APIKey(header string) Subject { return Subject{Kind: KindAPIKey, Name: header} }

// Cookie counts by the value of a cookie, which is a secret, as of a session: the store sees only its hash. A client
// can send any value, see [Header].
func Cookie(name string) Subject { return Subject{Kind: KindCookie, Name: name} }

// PathValue counts by a variable of the path, such as "id" of "/orders/{id}": the rule's own Match.Path must have it.
// The value is taken from the path of the request, and not from [net/http.Request.PathValue], so that it is the same
// before and behind a router. Of "{rest...}" it is cleaned. Requests count together, under no value, if their path
// is spelled so that servers may read different values, such as "/acme/../other/x" for "/{tenant}/{rest...}". A client
// can send any value: count by user or address beside it. Where a handler takes several values for one, as 7 and
// 07, use [Func].
func PathValue(name string) Subject { return Subject{Kind: KindPath, Name: name} }

// Constant counts all requests together under a name, which rules can share through
// named limits.
func Constant(name string) Subject { return Subject{Kind: KindConstant, Name: name} }

// Func counts by what a function of the program returns for a request. The function has this name in Limits.Funcs of httpcoord or grpccoord. Chain.Allow answers ErrInvalid to a request
// that needs a function that is not there. The store sees the value if it has at most 64 bytes: hash secrets.
func Func(name string) Subject { return Subject{Kind: KindFunc, Name: name} }

func (s Subject) check() error {
	switch s.Kind {
	case KindHeader, KindAPIKey, KindCookie, KindPath, KindConstant, KindFunc:
		if s.Name == "" {
			return fmt.Errorf("%w: subject %q without a name", coord.ErrInvalid, s.Kind)
		}
	case KindEveryone, KindIP, KindUser, KindCombined:
		if s.Name != "" {
			return fmt.Errorf("%w: subject %q with the name %q: want none", coord.ErrInvalid, s.Kind, s.Name)
		}
	default:
		return fmt.Errorf("%w: subject %q: want one of %s, or none for everyone", coord.ErrInvalid, s.Kind, kinds)
	}
	if s.IPv6Bits < 0 || s.IPv6Bits > 128 || s.IPv6Bits > 0 && s.Kind != KindIP {
		return fmt.Errorf("%w: %d bits of an IPv6 address for subject %q: want 1 to 128, for ip alone", coord.ErrInvalid, s.IPv6Bits, s.Kind)
	}
	if s.Kind == KindCookie && strings.ContainsFunc(s.Name, notToken) {
		return fmt.Errorf("%w: cookie %q: want a name without spaces, = and the like (RFC 6265)", coord.ErrInvalid, s.Name)
	}
	return s.checkParts()
}

// notToken reports whether c cannot be in the name of a cookie.
func notToken(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune("()<>@,;:\\\"/[]?={}", c)
}

// String is the subject as people write it: user, header X-Tenant, user + path id.
func (s Subject) String() string {
	switch {
	case s.Kind == KindEveryone:
		return "everyone"
	case s.Kind == KindCombined:
		parts := make([]string, len(s.Parts))
		for i, p := range s.Parts {
			parts[i] = p.String()
		}
		return strings.Join(parts, " + ")
	case s.Name == "":
		return string(s.Kind)
	}
	return string(s.Kind) + " " + s.Name
}

// source is what values of the subject are told apart by from others', as a part of a key.
func (s Subject) source() string {
	switch s.Kind {
	case KindHeader, KindAPIKey:
		return string(s.Kind) + " " + strings.ToLower(s.Name)
	case KindCookie, KindPath, KindFunc:
		return string(s.Kind) + " " + s.Name
	}
	return string(s.Kind)
}

// of is the subject of r, as a part of a key.
func (s Subject) of(r *view) string {
	switch s.Kind {
	case KindIP:
		return s.address(r.IP)
	case KindHeader, KindAPIKey:
		v := normal(s.Name, r.header(s.Name))
		if v != "" && (s.Kind == KindAPIKey || credential(s.Name)) {
			return hashed(v)
		}
		return short(v)
	case KindCookie:
		if v := r.cookie(s.Name); v != "" {
			return hashed(v)
		}
	case KindUser:
		return short(r.User)
	case KindPath:
		return short(r.pathValue(s.Name))
	case KindConstant:
		return short(s.Name)
	}
	return ""
}

func (r *Request) header(name string) string {
	if r.Header == nil {
		return ""
	}
	return r.Header(name)
}

func (r *Request) cookie(name string) string {
	if r.Cookie == nil {
		return ""
	}
	return r.Cookie(name)
}

// credential reports whether the value of a header is known to be a secret. Keys are seen in the store, in logs and in
// spans.
func credential(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization", "cookie":
		return true
	}
	return false
}

// normal is a value of a header without what says nothing of the credential or the host in it.
func normal(name, v string) string {
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization":
		scheme, credential, _ := strings.Cut(v, " ")
		scheme, credential = strings.ToLower(scheme), strings.Trim(credential, " ")
		if plain, err := base64.StdEncoding.DecodeString(credential); err == nil && scheme == "basic" {
			credential = string(plain) // some texts have more than one encoding
		}
		return strings.TrimSuffix(scheme+" "+credential, " ")
	case "host", ":authority":
		host := strings.ToLower(v)
		if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
			host = host[:i]
		}
		return strings.TrimSuffix(host, ".")
	}
	return v
}

// translated has the addresses of IPv4 clients behind a translator (NAT64, RFC 6052): they end with those of IPv4.
var translated = netip.MustParsePrefix("64:ff9b::/96")

func (s Subject) address(ip netip.Addr) string {
	if !ip.IsValid() {
		return ""
	}
	ip = ip.Unmap().WithZone("")
	if translated.Contains(ip) {
		whole := ip.As16()
		ip = netip.AddrFrom4([4]byte(whole[12:]))
	}
	if ip.Is4() {
		return ip.String()
	}
	bits := s.IPv6Bits
	if bits == 0 {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return "" // not with bits that were checked
	}
	return p.String()
}

// maxValue is the longest value that stands in a key as it is. Others are hashed.
const maxValue = 64

// short is v, or its hash where v does not fit into a key or looks like a hash.
func short(v string) string {
	if len(v) > maxValue || !utf8.ValidString(v) || len(v) > 0 && v[0] == '#' {
		return hashed(v)
	}
	return v
}

func hashed(v string) string {
	sum := sha256.Sum256([]byte(v))
	return "#" + hex.EncodeToString(sum[:16])
}
