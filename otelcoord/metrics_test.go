package otelcoord

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/internal/golden"
	"github.com/coordgo/coord/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// promNames are the names under which Prometheus has a metric, as OpenTelemetry's rules for
// its exporters make them. examples/metrics proves them with the exporter.
func promNames(m Metric) []string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	if m.Unit == "s" {
		name += "_seconds"
	}
	switch m.Kind {
	case counter:
		return []string{name + "_total"}
	case histogram:
		return []string{name + "_bucket", name + "_sum", name + "_count"}
	}
	return []string{name}
}

// promLabels are the labels that a metric has there.
func promLabels(m Metric) []string {
	labels := []string{"le", strings.ReplaceAll(attrBackend, ".", "_")}
	for _, a := range m.Attributes {
		labels = append(labels, strings.ReplaceAll(a, ".", "_"))
	}
	return labels
}

// dashboard is what there is to check in one.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Query any }
	}
}

var (
	word     = regexp.MustCompile(`coord_[a-z_]+`)
	selector = regexp.MustCompile(`(coord_[a-z_]+)\{([^}]*)\}`)
	grouping = regexp.MustCompile(`by \(([^)]*)\)`)
	legend   = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// Every query of the dashboard asks for a metric that there is, by labels that it has, and
// every metric is shown.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]Metric)
	labels := make(map[string]bool)
	unseen := make(map[string]bool)
	for _, m := range Metrics() {
		unseen[m.Name] = true
		for _, name := range promNames(m) {
			byName[name] = m
		}
		for _, l := range promLabels(m) {
			labels[l] = true
		}
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			found := selector.FindAllStringSubmatch(q.Expr, -1)
			if len(found) != 1 {
				t.Fatalf("%s: %d metrics in %s", p.Title, len(found), q.Expr)
			}
			m, ok := byName[found[0][1]]
			if !ok {
				t.Errorf("%s asks for %s, which there is not", p.Title, found[0][1])
				continue
			}
			delete(unseen, m.Name)
			has := promLabels(m)
			var used []string
			for _, l := range strings.Split(found[0][2], ",") {
				name, _, _ := strings.Cut(l, "=")
				used = append(used, name)
			}
			by := grouping.FindStringSubmatch(q.Expr)
			if by == nil {
				t.Fatalf("%s: no grouping in %s", p.Title, q.Expr)
			}
			groups := strings.Split(by[1], ", ")
			for _, l := range legend.FindAllStringSubmatch(q.LegendFormat, -1) {
				if !slices.Contains(groups, l[1]) {
					t.Errorf("%s: the legend has %s, by which it is not grouped", p.Title, l[1])
				}
			}
			for _, l := range append(used, groups...) {
				if !slices.Contains(has, l) {
					t.Errorf("%s: %s has no label %q", p.Title, m.Name, l)
				}
			}
		}
	}
	for name := range maps.Keys(unseen) {
		t.Errorf("%s is in no panel", name)
	}
	for _, w := range word.FindAllString(string(text), -1) {
		if _, ok := byName[w]; !ok && !labels[w] {
			t.Errorf("the dashboard speaks of %s", w)
		}
	}
}

// The table in the documents is what the code says.
func TestMetricsTable(t *testing.T) {
	const (
		path  = "../docs/observability.md"
		begin = "<!-- metrics: written by go test ./otelcoord -update -->\n"
		end   = "<!-- end of metrics -->\n"
	)
	var b strings.Builder
	b.WriteString("| metric | kind | unit | attributes | |\n| --- | --- | --- | --- | --- |\n")
	for _, m := range Metrics() {
		attrs := ""
		for _, a := range m.Attributes {
			attrs += "`" + a + "` "
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s | %s |\n", m.Name, m.Kind, m.Unit, strings.TrimSpace(attrs), m.Description)
	}
	golden.Section(t, path, begin, end, b.String())
}

// Names and units keep the conventions.
func TestMetricNames(t *testing.T) {
	name := regexp.MustCompile(`^coord\.(lock|limit|store)(\.[a-z]+)+$`)
	for _, m := range Metrics() {
		if !name.MatchString(m.Name) || m.Description == "" {
			t.Errorf("%+v", m)
		}
		if isTime := strings.HasSuffix(m.Name, ".duration"); isTime != (m.Unit == "s") || isTime != (m.Kind == histogram) {
			t.Errorf("%s is a %s in %s", m.Name, m.Kind, m.Unit)
		}
	}
}

// Every field of an Observer is of use, and works with the global providers, which do nothing.
func TestNewWithoutSDK(t *testing.T) {
	for _, opts := range [][]Option{nil, {WithMeterProvider(noop.NewMeterProvider()), WithKey(strings.ToUpper), WithSpanKey(strings.ToUpper)}} {
		o, err := New(opts...)
		if err != nil {
			t.Fatal(err)
		}
		ctx := o.CallBegan(t.Context(), observe.Call{Op: "do", Key: "k"})
		o.WaitBegan(ctx, observe.WaitBegan{})
		o.WaitEnded(ctx, observe.WaitEnded{})
		o.Acquired(ctx, observe.Acquired{})
		o.Reentered(ctx, observe.Reentered{})
		o.Refused(ctx, observe.Refused{})
		o.Renewed(ctx, observe.Renewed{})
		o.RenewFailed(ctx, observe.RenewFailed{})
		o.Lost(ctx, observe.Lost{})
		o.Released(ctx, observe.Released{})
		o.Allowed(ctx, observe.Decision{})
		o.Denied(ctx, observe.Decision{})
		o.Degraded(ctx, observe.Decision{})
		o.LeaseEnded(ctx, observe.LeaseEnded{Spent: 1, Returned: 1, Wasted: 1})
		o.StoreCalled(ctx, observe.StoreCall{})
		o.CallEnded(ctx, observe.CallEnded{Call: observe.Call{Op: "wait"}})
	}
}
