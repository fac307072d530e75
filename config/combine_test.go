package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	_ "github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/rules"
)

// A reload changes whom a rule counts, and each combination has limits of its own.
func TestCombinedSubjects(t *testing.T) {
	file := filepath.Join(t.TempDir(), "coord.yaml")
	write := func(subject string) {
		t.Helper()
		text := "url: memory://\nrules: [{name: a, subject: " + subject + ", limits: [1/1h]}]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("user")
	client, err := config.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	allowed := func(tenant string) bool {
		t.Helper()
		r := &rules.Request{User: "ann", Header: func(string) string { return tenant }}
		d, err := client.Rules().Allow(t.Context(), client, r)
		if err != nil {
			t.Fatal(err)
		}
		return d.Allowed
	}
	if got := []bool{allowed("acme"), allowed("emca")}; !slices.Equal(got, []bool{true, false}) {
		t.Errorf("by user: %v", got)
	}
	write("[user, {header: X-Tenant}]")
	if err := client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := []bool{allowed("acme"), allowed("emca"), allowed("acme")}; !slices.Equal(got, []bool{true, true, false}) {
		t.Errorf("by user and tenant: %v", got)
	}
	for _, v := range client.Config().Values() {
		if v.Key == "rules.a" && v.Value != "everything by user + header X-Tenant: 1/1h" {
			t.Errorf("it is shown as %q", v.Value)
		}
	}
}
