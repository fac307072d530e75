package config

import (
	"strings"

	"github.com/coordgo/coord/rules"
)

// examples are requests that m matches: one for each method, and one of HTTP and one of gRPC
// if it matches both.
func examples(m rules.Match) []rules.Request {
	list := examplesFrom(m)
	for i := range list {
		if len(m.Networks) > 0 {
			list[i].IP = m.Networks[0].Addr()
		}
	}
	return list
}

// examplesFrom are those of clients whose address is not known.
func examplesFrom(m rules.Match) []rules.Request {
	if m.RPC != "" {
		return []rules.Request{{RPC: strings.TrimSuffix(m.RPC, "*") + strings.Repeat("x", strings.Count(m.RPC, "*"))}}
	}
	methods := m.Methods
	if len(methods) == 0 {
		methods = []string{"GET"}
	}
	var list []rules.Request
	for _, method := range methods {
		list = append(list, rules.Request{Method: method, Path: examplePath(m.Path)})
	}
	if m.Path == "" && len(m.Methods) == 0 {
		list = append(list, rules.Request{RPC: "/x.X/X"})
	}
	return list
}

// examplePath is a path that the pattern matches.
func examplePath(pattern string) string {
	if pattern == "" {
		return "/"
	}
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		switch {
		case s == "{$}":
			segments[i] = ""
		case strings.HasPrefix(s, "{"):
			segments[i] = "x"
		}
	}
	return strings.Join(segments, "/")
}

func describeRequest(r *rules.Request) string {
	if r.RPC != "" {
		return "RPC " + r.RPC
	}
	return r.Method + " " + r.Path
}
