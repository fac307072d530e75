package envoy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3" // in a filter
	connections "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3" // in a cluster
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/coordgo/coord/server/envoy"
)

// blocks are those of the page for users that have this mark.
func blocks(t *testing.T, mark string) (all [][]byte) {
	t.Helper()
	page, err := os.ReadFile("../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```"+mark+"\n(.*?)```").FindAllSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

// The limits on the page are taken, and the configuration of Envoy is one, as far as its messages can say.
func TestPage(t *testing.T) {
	t.Parallel()
	files, parts := 0, 0
	for _, b := range blocks(t, "yml") {
		if bytes.HasPrefix(b, []byte("domain:")) {
			files++
			if _, err := envoy.Parse(false, envoy.File{Name: "envoy.md", Text: b}); err != nil {
				t.Errorf("%v\n%s", err, b)
			}
			continue
		}
		var of map[string][]any
		if err := yaml.Unmarshal(b, &of); err != nil {
			t.Fatal(err)
		}
		for name, m := range map[string]proto.Message{
			"http_filters": new(connections.HttpFilter), "rate_limits": new(route.RateLimit), "clusters": new(cluster.Cluster),
		} {
			for _, part := range of[name] {
				parts++
				text, err := json.Marshal(part)
				if err == nil {
					err = protojson.Unmarshal(text, m)
				}
				if err == nil {
					err = m.(interface{ ValidateAll() error }).ValidateAll()
				}
				if err != nil {
					t.Errorf("%s: %v", text, err)
				}
			}
		}
	}
	if files != 1 || parts != 3 {
		t.Errorf("%d files of limits and %d parts of Envoy's: want 1 and 3", files, parts)
	}
}

// The request on the page has the answer there.
func TestPageJSON(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "", strings.Replace(of("20"), "domain: d\ndescriptors: [{key: a, rate_limit: {unit: year", "domain: edge\ndescriptors: [{key: user, rate_limit: {unit: minute", 1))
		time.Sleep(19 * time.Second)
		parts := regexp.MustCompile(`(?s)--data '(.*?)' .*?\n(.*?)\n`).FindSubmatch(blocks(t, "console")[0])
		w := post(t, k, string(parts[1]))
		if got := strings.ReplaceAll(w.Body.String(), " ", ""); w.Code != 200 || got != string(parts[2]) {
			t.Errorf("%d\ngot  %s\nwant %s", w.Code, got, parts[2])
		}
	})
}
