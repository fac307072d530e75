package config_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord/config"
)

const served = `
serve:
  listen: 0.0.0.0:8470
  plaintext: true
  callers:
    - {name: web, token: "${WEB_TOKEN}", allow: [{prefix: web/, rights: [lock, take]}, {rights: [read]}]}
    - {name: ops, token: "in-the-file-itself", allow: [{rights: [read, break]}]}
`

func TestServe(t *testing.T) {
	path := file(t, served)
	c, err := config.LoadEnv(t.Context(), path, environ{"WEB_TOKEN": "0123456789abcdef"}.lookup)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Serve{
		Listen: "0.0.0.0:8470", Plaintext: true,
		Callers: []config.Caller{
			{Name: "web", Token: "${WEB_TOKEN}", Allow: []config.Allow{{Prefix: "web/", Rights: []config.Right{config.Locks, config.Take}}, {Rights: []config.Right{config.Read}}}},
			{Name: "ops", Token: "in-the-file-itself", Allow: []config.Allow{{Rights: []config.Right{config.Read, config.Break}}}},
		},
	}
	if !reflect.DeepEqual(c.Serve, want) {
		t.Errorf("got %+v", c.Serve)
	}
	tokens, err := c.Tokens(t.Context())
	if err != nil || !reflect.DeepEqual(tokens, map[string]string{"web": "0123456789abcdef", "ops": "in-the-file-itself"}) {
		t.Errorf("tokens %v, %v", tokens, err)
	}
	for what, shown := range map[string]string{"values": values(c), "the section": fmt.Sprintf("%v %+v %#v", c.Serve, c.Serve, c.Serve)} {
		if strings.Contains(shown, "in-the-file") {
			t.Errorf("%s show a token: %s", what, shown)
		}
	}
	if got := values(c); !strings.Contains(got, "serve.callers.0 = web: lock, take on web/; read on everything (") || !strings.Contains(got, "serve.max_wait = 1m0s (default)") {
		t.Errorf("values:\n%s", got)
	}
	if d := new(config.Serve).WithDefaults(); d.Listen != config.DefaultListen || d.MaxWait != time.Minute || d.MaxHolds != 1000 || !d.Local() {
		t.Errorf("defaults: %+v", d)
	}
}

// A token that is missing or too short is refused when it is looked up, and is not shown.
func TestTokensRefused(t *testing.T) {
	for token, want := range map[string]string{
		"":         "FILE:6: serve.callers.0.token: ${WEB_TOKEN}: not set in the environment",
		"tooshort": "FILE:6: serve.callers.0.token: 8 bytes: want 16 or more",
	} {
		path := file(t, served)
		c, err := config.LoadEnv(t.Context(), path, environ{"WEB_TOKEN": token}.lookup)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Tokens(t.Context()); err == nil || strings.ReplaceAll(err.Error(), path, "FILE") != want {
			t.Errorf("%q: %v", token, err)
		}
	}
}

// Of the section only who the callers are changes while a client is open, and not whether there are any.
func TestReloadServe(t *testing.T) {
	const web, ops = `{name: web, token: 0123456789abcdef, allow: [{rights: [lock]}]}`, `{name: ops, token: 0123456789abcdeg, allow: [{rights: [read]}]}`
	section := func(text string) string { return "limits: {a: 1/1s}\nserve: {" + text + "}\n" }
	c, rewrite := opened(t, nil, section("callers: ["+web+"]"))
	rewrite(section("callers: [" + ops + ", " + web + "]"))
	if err := c.Reload(t.Context()); err != nil || len(c.Config().Serve.Callers) != 2 || c.Config().Serve.Callers[0].Name != "ops" {
		t.Errorf("Reload: %v, %v", err, c.Config().Serve)
	}
	for _, other := range []string{"", "max_holds: 7", "max_holds: 7, callers: [" + web + "]"} {
		rewrite(section(other))
		if err := c.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), ": serve: other values: only limits, rules and who the callers are change") {
			t.Errorf("%q: Reload: %v", other, err)
		}
	}
}

// The files of Envoy's service, and what else the section says of it.
func TestServeEnvoy(t *testing.T) {
	c, err := config.Parse("coord.yaml", []byte("serve: {envoy: {files: [a, b], merge_domains: true, quota: true, metadata: true}}"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (config.Envoy{Files: []string{"a", "b"}, MergeDomains: true, Quota: true, Metadata: true}); !reflect.DeepEqual(c.Serve.Envoy, want) {
		t.Errorf("got %+v", c.Serve.Envoy)
	}
	for _, want := range []string{"serve.envoy.files = a b (", "serve.envoy.quota = true (", "serve.envoy.shadow = false (default)"} {
		if got := values(c); !strings.Contains(got, want) {
			t.Errorf("want %q in the values:\n%s", want, got)
		}
	}
}

// Addresses that only this machine reaches.
func TestServeLocal(t *testing.T) {
	for listen, local := range map[string]bool{
		"": true, "127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "unix:/run/x": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "localhost.example:1": false,
	} {
		for _, s := range []config.Serve{{Listen: listen}, {GRPCListen: listen}} {
			if got := s.Local(); got != local {
				t.Errorf("%+v: %v", s, got)
			}
		}
	}
}
