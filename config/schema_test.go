package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/coordgo/coord/config"
)

// compiled is the schema, as an editor reads it.
func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("coord.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("coord.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance is a file as JSON, which is what a schema speaks about; a file that says nothing is an
// empty one.
func instance(text []byte) (any, error) {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	if v == nil {
		return map[string]any{}, nil
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(out))
}

// The keys of the schema are the keys of the parser, in each mapping: what the parser says that
// it wants is what the schema has.
func TestSchemaKeys(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(config.Schema(), &root); err != nil {
		t.Fatal(err)
	}
	at := func(path ...string) map[string]any {
		t.Helper()
		v := root
		for _, p := range path {
			next, ok := v[p].(map[string]any)
			if list, isList := v[p].([]any); isList { // the mapping among the forms
				for _, form := range list {
					if m, isMap := form.(map[string]any); isMap && m["type"] == "object" {
						next, ok = m, true
					}
				}
			}
			if !ok {
				t.Fatalf("the schema has no %v", path)
			}
			v = next
		}
		return v
	}
	mappings := map[string]map[string]any{
		"nosuch: 1":                       at(),
		"url: {nosuch: 1}":                at("properties", "url", "anyOf"),
		"lock: {nosuch: 1}":               at("properties", "lock"),
		"serve: {nosuch: 1}":              at("properties", "serve"),
		"serve: {tls: {nosuch: 1}}":       at("properties", "serve", "properties", "tls"),
		"serve: {envoy: {nosuch: 1}}":     at("properties", "serve", "properties", "envoy"),
		"serve: {callers: [{nosuch: 1}]}": at("properties", "serve", "properties", "callers", "items"),
		"serve: {callers: [{name: a, token: b, allow: [{nosuch: 1}]}]}": at("properties", "serve", "properties", "callers", "items", "properties", "allow", "items"),
		"limits: {a: {nosuch: 1}}":                                      at("definitions", "namedMapping"),
		"limits: {a: {lease: {nosuch: 1}}}":                             at("definitions", "namedMapping", "properties", "lease", "anyOf"),
		"rules: [{nosuch: 1}]":                                          at("definitions", "rule"),
		"rules: [{limits: [{nosuch: 1}]}]":                              at("definitions", "limitMapping"),
		"rules: [{match: {nosuch: 1}}]":                                 at("definitions", "match"),
		"rules: [{subject: {nosuch: 1}}]":                               at("definitions", "subject", "anyOf"),
		"rules: [{subject: {ip: {nosuch: 1}}}]":                         at("definitions", "subject", "anyOf", "properties", "ip"),
	}
	checked := make(map[string]bool)
	for text, mapping := range mappings {
		_, err := config.Parse("coord.yaml", []byte(text))
		if err == nil {
			t.Fatalf("%s is accepted", text)
		}
		_, names, ok := strings.Cut(err.Error(), `unknown key "nosuch": want one of `)
		if !ok {
			t.Fatalf("%s: %v", text, err)
		}
		want := strings.Split(names, ", ")
		var got []string
		for name := range mapping["properties"].(map[string]any) {
			got = append(got, name)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the schema has %v, the parser %v", text, got, want)
		}
		if mapping["additionalProperties"] != false {
			t.Errorf("%s: the schema accepts unknown keys", text)
		}
		checked[strings.Join(got, " ")] = true
	}
	// No mapping of the schema is left out above.
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if properties, ok := v["properties"].(map[string]any); ok && v["type"] == "object" {
				var names []string
				for name := range properties {
					names = append(names, name)
				}
				slices.Sort(names)
				if !checked[strings.Join(names, " ")] {
					t.Errorf("the mapping of %v is not held against the parser", names)
				}
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(root)
}

// What the parser accepts the schema accepts.
func TestSchemaAccepts(t *testing.T) {
	s := compiled(t)
	for _, text := range append(accepted, whole) {
		if _, err := config.Parse("coord.yaml", []byte(text)); err != nil {
			t.Fatal(err)
		}
		v, err := instance([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

// accepted shows each form of each value.
var accepted = []string{
	"", "{}", "url: redis://h", "url: 'redis+sentinel://u:${A}@h1,h2/main?sentinel_password=${file:/x}'", "url: {locks: 'etcd://h', limits: 'redis://h'}",
	"require: []", "failure_policy: closed", "best_effort: false", "lock: {}", "lock: {ttl: 1h30m0.5s}", "lock: {wait: 250us, max_hold: 1.s, min_hold: .5s}",
	"limits: {}", "limits: {a: {rate: 1, per: 1s, lease: true}}", "limits: {a: {rate: 1, per: 1s, lease: false}}", "limits: {a: {rate: 9, per: 1s, lease: {max: 5, for: 20ms, lessees: 3}}, b: {rate: 9, per: 1s, lease: {max: 5, for: 20ms, lessees: 3}}}", "limits: {a: 10/s}", "limits: {a: 2000/min, b: 10 per second, c: 5 / 5 minutes burst=3}", "rules: [{name: a, limits: [10 per second]}]", "limits: {a: '5/100ms token-bucket burst=7'}", "limits: {'a b/c': {per: 1s, rate: 1}}",
	"serve: {}", "serve: {listen: 'unix:/run/coord.sock', grpc_listen: '127.0.0.1:8471', max_wait: 5m, drain: 1s, max_holds: 5, max_requests: 6, max_connections: 7, ad_hoc_limits: true, page: read}",
	"serve: {envoy: {files: [/etc/ratelimit, b.yaml], merge_domains: true, shadow: false, quota: true, headers: true, metadata: true}}",
	served, "serve: {listen: '[::1]:80', page: act, tls: {certificate: a, key: b, client_ca: c}, callers: [{name: a, certificate: b.example, allow: [{rights: [read]}]}]}",
	"rules: []", "rules: [{name: a, limits: [1/1s]}]", "rules: [{name: a, final: true, match: {}}]", "rules: [{name: a, match: {methods: [PURGE], path: /a, exact_slash: true}, final: true}]",
	"rules: [{name: a, match: {rpc: /a.B/C}, subject: {ip: {}}, limits: [1/1s]}]", "limits: {a: 1/1s}\nrules: [{name: a, subject: {constant: x}, limits: [a, {rate: 1, per: 1m}]}]",
	"rules: [{name: a, shadow: true, limits: [5/1s]}]", "rules: [{name: a, limits: [5/1s], failure_policy: open}]", "rules: [{name: a, match: {networks: [10.0.0.0/8, '2001:db8::1'], except_networks: [10.1.0.7]}, final: true}]",
	"rules: [{name: a, subject: {cookie: session}, limits: [1/1s]}]", "rules: [{name: a, match: {path: '/{id}'}, subject: [user, {path: id}], limits: [1/1s]}]",
	"rules: [{name: a, cost: 5, limits: [5/1s]}]", "rules: [{name: a, subject: {func: order}, limits: [1/1s]}]", "rules: [{name: a, subject: [user, {header: X-Tenant}], limits: [1/1s]}]", "rules: [{name: a, subject: [ip, user, {api_key: X-Key}, {constant: x}], limits: [1/1s]}]",
}

// What the schema does not see of what the parser refuses is told here: the text of YAML itself,
// values that depend on others, and what only arithmetic knows.
func TestSchemaRefuses(t *testing.T) {
	s := compiled(t)
	unseen := regexp.MustCompile(`not YAML|anchor|tagged|"…"|second document|again|contradicts|is above|no limit "|the same limit as|would be one account|never applies|` +
		`malformed|not a URL|does not end|outside of the password|in all rules|` + // URLs
		`want at least|whole microseconds|is not a|want 1 to|too fine|only a token-bucket|bytes of printable|want at most 256 of UTF-8|` + // numbers and names
		`other machines can connect|without tls.client_ca|without callers|host:port|/path} alone|want it without|has no \{|have no cookies|\{a\} twice|want capitals|want a method of IANA's|want no URL`) // patterns
	var seen int
	for _, r := range refusals() {
		v, err := instance([]byte(r.text))
		if err != nil {
			continue // not YAML, or not JSON
		}
		if err := s.Validate(v); err == nil && !unseen.MatchString(r.want) {
			t.Errorf("the schema accepts %q: %s", r.text, r.want)
		} else if err != nil {
			seen++
		}
	}
	if all := len(refusals()); seen < all/2 {
		t.Errorf("the schema sees %d of %d refusals only", seen, all)
	}
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// Each file that the documentation shows is one, for the parser and for the schema; and each
// key and each variable is documented.
func TestDocumentation(t *testing.T) {
	s := compiled(t)
	text, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := yamlBlock.FindAllSubmatch(text, -1)
	for _, b := range blocks {
		if _, err := config.Parse("coord.yaml", b[1]); err != nil {
			t.Errorf("%s%v", b[1], err)
		}
		v, err := instance(b[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s%v", b[1], err)
		}
	}
	if len(blocks) < 5 {
		t.Errorf("%d blocks of YAML: has their mark changed?", len(blocks))
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for line := range strings.Lines(string(doc)) {
		if code, ok := strings.CutPrefix(line, "//\t"); ok && (strings.HasPrefix(code, "url:") || shown.Len() > 0) {
			if strings.HasPrefix(code, "client") {
				break
			}
			shown.WriteString(code)
		}
	}
	if c, err := config.Parse("doc.go", []byte(shown.String())); err != nil || len(c.Rules.Rules()) != 2 {
		t.Errorf("the file in the package's documentation: %v", err)
	}
	variables, keys := config.EnvVariables()
	for i, v := range variables {
		if !bytes.Contains(text, []byte("`"+v+"`")) || v != "COORD_"+strings.ToUpper(strings.ReplaceAll(keys[i], ".", "_")) {
			t.Errorf("%s of %s is not documented", v, keys[i])
		}
	}
	for _, key := range []string{
		"url", "prefix", "require", "failure_policy", "best_effort", "lock.ttl", "lock.wait", "lock.max_hold", "lock.min_hold", "lock.fair", "lock.renew",
		"limits.NAME", "rules", "rate", "per", "burst", "algorithm", "lease", "lease.max", "lease.for", "lease.lessees", "name", "match.methods", "match.path", "match.exact_slash", "match.rpc", "subject", "limits", "cost", "failure_policy", "final", "shadow", "match.networks", "match.except_networks", "{cookie: session}", "{path: id}",
		"everyone", "ip", "{ip: {ipv6_bits: 56}}", "user", "{header: X-Tenant}", "{api_key: X-Api-Key}", "{constant: batch}", "{func: order}", "[user, {header: X-Tenant}]", "envoy.files", "envoy.merge_domains",
	} {
		if !bytes.Contains(text, []byte("| `"+key+"` |")) {
			t.Errorf("%s is not documented", key)
		}
	}
	const refused = `coord.yaml:7: lock.ttl: "10": want a duration such as 30s`
	if _, err := config.Parse("coord.yaml", []byte(strings.Repeat("\n", 6)+"lock: {ttl: 10}")); err == nil || err.Error() != refused || !bytes.Contains(text, []byte(refused)) {
		t.Errorf("the refusal that is documented: %v", err)
	}
}
