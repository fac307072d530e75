package config

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// EnvURL is the environment variable that replaces the key url.
const EnvURL = "COORD_URL"

// EnvVariables lists the environment variables that replace keys of the file, and those
// keys, in the order of the keys. A variable that is empty replaces nothing.
func EnvVariables() (variables, keys []string) {
	keys = []string{"url", "url.locks", "url.limits"}
	for _, f := range new(parser).variables(new(Config)) {
		keys = append(keys, f.name)
	}
	for _, k := range keys {
		variables = append(variables, variable(k))
	}
	return variables, keys
}

// variable is the environment variable of a key: COORD_LOCK_TTL for lock.ttl.
func variable(key string) string {
	return "COORD_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// environment replaces what the environment sets.
func (c *Config) environment(lookup func(string) (string, bool)) error {
	p := &parser{outside: true, places: c.places}
	var wrong mistakes
	for _, f := range p.variables(c) {
		value, _ := lookup(variable(f.name))
		if value == "" {
			continue
		}
		p.file = variable(f.name)
		wrong.add(f.set(f.name, scalarOrList(f.name, value)))
		p.note(f.name, 0)
	}
	wrong.add(c.urlVariables(p, lookup))
	return wrong.err()
}

// variables are the fields that the environment may replace, by their whole keys.
func (p *parser) variables(c *Config) []field {
	all := p.plainFields(c)
	for _, f := range p.lockFields(&c.Lock) {
		all = append(all, field{join("lock", f.name), f.set})
	}
	for _, f := range p.serveFields(&c.Serve) {
		all = append(all, field{join("serve", f.name), f.set})
	}
	return all
}

// scalarOrList is the value of a variable as a file would have it.
func scalarOrList(key, value string) *yaml.Node {
	text := func(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }
	if key != "require" {
		return text(value)
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for item := range strings.SplitSeq(value, ",") {
		list.Content = append(list.Content, text(strings.TrimSpace(item)))
	}
	return list
}

// urlVariables replaces the store by COORD_URL, and then that of locks or limits alone.
func (c *Config) urlVariables(p *parser, lookup func(string) (string, bool)) error {
	read := func(key string, to *URL) (bool, error) {
		p.file = variable(key)
		value, _ := lookup(p.file)
		if value == "" {
			return false, nil
		}
		*to = URL(value)
		p.note(key, 0)
		if problem := to.problem(); problem != "" {
			return true, c.places[key].mistake(key, problem)
		}
		return true, nil
	}
	whole, err := read("url", &c.URL)
	if err != nil {
		return err
	}
	if whole {
		c.LocksURL, c.LimitsURL, c.Quorum = "", "", nil
		delete(c.places, "quorum")
		delete(c.places, "url.locks")
		delete(c.places, "url.limits")
	}
	locks, err := read("url.locks", &c.LocksURL)
	if err != nil {
		return err
	}
	limits, err := read("url.limits", &c.LimitsURL)
	if err != nil || !locks && !limits {
		return err
	}
	return c.completeStores()
}

// completeStores gives what no variable has set, locks or limits, the store that there was.
func (c *Config) completeStores() error {
	for key, url := range map[string]*URL{"url.locks": &c.LocksURL, "url.limits": &c.LimitsURL} {
		if *url != "" {
			continue
		}
		if c.URL == "" {
			other := map[string]string{"url.locks": "url.limits", "url.limits": "url.locks"}[key]
			return c.places[other].mistake(other, "no store beside it: set "+variable(key)+" or "+EnvURL+" too")
		}
		*url = c.URL
		c.places[key] = c.places["url"]
	}
	c.URL = ""
	delete(c.places, "url")
	return nil
}
