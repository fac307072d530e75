package config

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

func (p *parser) limits(path string, n *yaml.Node, c *Config) error {
	c.Limits = make(map[string]coord.Limit)
	p.broken = map[string]bool{"": n.Kind != yaml.MappingNode}
	return p.each(path, n, func(name string, key, value *yaml.Node) error {
		if problem := badName(name); problem != "" {
			return p.bad(path, key, "%s", problem)
		}
		p.note(join(path, name), value.Line)
		l, err := p.limit(join(path, name), value, field{"lease", func(key string, n *yaml.Node) error { return p.lease(key, n, c, name) }})
		if err == nil {
			c.Limits[name] = l
		}
		p.broken[name] = err != nil
		return err
	})
}

// limit reads either form. more are keys of a mapping.
func (p *parser) limit(key string, n *yaml.Node, more ...field) (coord.Limit, error) {
	const want = "want a form like 2000/1m, or a mapping of rate, per, burst, algorithm"
	switch {
	case n.Kind == yaml.MappingNode:
		return p.limitMap(key, n, more...)
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || maybeURL(n.Value):
		return coord.Limit{}, p.bad(key, n, "%s: %s", kind(n), want)
	}
	l, err := driver.ParseLimit(n.Value)
	if err != nil {
		return l, p.bad(key, n, "%s", reason(err))
	}
	return l, nil
}

// reason is the text of an ErrInvalid without its name.
func reason(err error) string {
	return strings.Replace(err.Error(), driver.ErrInvalid.Error()+": ", "", 1)
}

func (p *parser) limitMap(path string, n *yaml.Node, more ...field) (coord.Limit, error) {
	var l coord.Limit
	err := p.mapping(path, n, append([]field{
		{"rate", func(key string, n *yaml.Node) (err error) { l.Rate, err = p.count(key, n); return err }},
		{"per", func(key string, n *yaml.Node) (err error) {
			l.Per, err = p.duration(key, n, driver.MinPer, driver.MaxPer)
			return err
		}},
		{"burst", func(key string, n *yaml.Node) (err error) { l.Burst, err = p.count(key, n); return err }},
		{"algorithm", func(key string, n *yaml.Node) (err error) { l.Algorithm, err = p.algorithm(key, n); return err }},
	}, more...))
	switch {
	case err != nil:
		return l, err
	case l.Rate == 0:
		return l, p.bad(path, n, "no rate: want a number of permits such as 2000")
	case l.Per == 0:
		return l, p.bad(path, n, "no per: want a duration such as 1m")
	}
	if _, err := l.Normal(); err != nil {
		return l, p.bad(path, n, "%s", reason(err))
	}
	return l, nil
}

// count reads a number of permits.
func (p *parser) count(key string, n *yaml.Node) (int, error) {
	return p.number(key, n, driver.MaxRate)
}

// number reads a whole number from 1 to most.
func (p *parser) number(key string, n *yaml.Node, most int) (int, error) {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil || v < 1 || v > most {
		return 0, p.bad(key, n, "%s: want a whole number from 1 to %d", kind(n), most)
	}
	return v, nil
}

func (p *parser) algorithm(key string, n *yaml.Node) (coord.Algorithm, error) {
	const want = "sliding-window, token-bucket or fixed-window"
	name, err := p.text(key, n, want)
	if err != nil {
		return 0, err
	}
	a, err := driver.ParseAlgorithm(name)
	if err != nil {
		return 0, p.bad(key, n, "%s: want %s", show(name), want)
	}
	return a, nil
}
