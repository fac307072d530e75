package httpcoord

import (
	"net/netip"
	"strings"
)

// lastForwarded takes the last element from the value of a Forwarded header (RFC 7239,
// part 4) and gives the address of its "for"; the zero Addr if it is hidden or
// damaged. It reads from the right, because what stands left of a proxy's own element
// may be anything, such as a quote that is never closed.
func lastForwarded(list string) (last netip.Addr, rest string) {
	inQuotes := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i] == '"' && !escaped(list, i):
			inQuotes = !inQuotes
		case list[i] == ',' && !inQuotes:
			return forAddr(list[i+1:]), list[:i]
		}
	}
	return forAddr(list), ""
}

// escaped reports whether an odd number of backslashes stands before list[i].
func escaped(list string, i int) bool {
	before := strings.TrimRight(list[:i], `\`)
	return (i-len(before))%2 == 1
}

// forAddr reads one element, such as `for="[2001:db8::1]:4711";proto=https`.
func forAddr(element string) (addr netip.Addr) {
	seen := false
	for rest := strings.Trim(element, " \t"); ; {
		name, value, after, ok := pair(rest)
		if !ok {
			return netip.Addr{}
		}
		if strings.EqualFold(name, "for") {
			if seen {
				return netip.Addr{} // each parameter once
			}
			addr, seen = parseAddr(value), true
			if addr.Is6() && !strings.HasPrefix(value, "[") {
				return netip.Addr{} // IPv6 is bracketed
			}
		}
		if after == "" {
			return addr
		}
		rest = after[1:]
	}
}

// pair takes name=value from the left of s. after is empty, or begins with ';'.
func pair(s string) (name, value, after string, ok bool) {
	name, s, ok = strings.Cut(s, "=")
	if !ok || name == "" || token(name) != len(name) {
		return "", "", "", false
	}
	if strings.HasPrefix(s, `"`) {
		value, after, ok = quoted(s[1:])
	} else {
		n := token(s)
		value, after, ok = s[:n], s[n:], n > 0
	}
	return name, value, after, ok && (after == "" || after[0] == ';')
}

// quoted reads a quoted-string (RFC 9110, part 5.6.4) whose opening quote is behind.
func quoted(s string) (value, after string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], true
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// token counts the characters of a token (RFC 9110, part 5.6.2) at the beginning of s.
func token(s string) int {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return i
		}
	}
	return len(s)
}
