package rules_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/rules"
)

// generous admits everything.
type generous struct{}

func (generous) AllowN(_ context.Context, _ string, _ coord.Limit, n int) (coord.Result, error) {
	return coord.Result{Allowed: true, Granted: n}, nil
}

func (generous) AllowAll(_ context.Context, demands ...coord.Demand) ([]coord.Result, error) {
	results := make([]coord.Result, len(demands))
	for i, d := range demands {
		results[i] = coord.Result{Allowed: true, Granted: d.N}
	}
	return results, nil
}

// The first rule exempts; requests that it does not match come to the second.
func ExampleRule() {
	chain, err := rules.New(
		rules.Rule{Name: "health", Match: rules.Match{Path: "/healthz"}, Final: true},
		rules.Rule{Name: "all", Limits: []rules.Limit{{Limit: coord.PerSecond(2000)}}},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"/healthz", "/orders"} {
		fmt.Println(path, len(chain.Bounds(&rules.Request{Method: "GET", Path: path})))
	}
	// Output:
	// /healthz 0
	// /orders 1
}

// All that is set has to be true. A name of gRPC may end in a star.
func ExampleMatch() {
	chain, err := rules.New(rules.Rule{
		Name: "place", Match: rules.Match{RPC: "/shop.Orders/*"}, Limits: []rules.Limit{{Limit: coord.PerSecond(5)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, rpc := range []string{"/shop.Orders/Place", "/shop.Carts/Add"} {
		fmt.Println(rpc, len(chain.Bounds(&rules.Request{RPC: rpc})))
	}
	// Output:
	// /shop.Orders/Place 1
	// /shop.Carts/Add 0
}

// What the rules look at, whatever the request came by.
func ExampleRequest() {
	chain, err := rules.New(rules.Rule{
		Name: "orders", Match: rules.Match{Path: "/orders/"}, Subject: rules.User(),
		Limits: []rules.Limit{{Limit: coord.PerSecond(5)}, {Name: "hourly", Limit: coord.PerHour(1)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := &rules.Request{Method: "POST", Path: "/orders/7", User: "ann", IP: netip.MustParseAddr("192.0.2.1")}
	for _, b := range chain.Bounds(r) {
		fmt.Println(b.Rule, b.Name(), b.Demand.N)
	}
	// Output:
	// orders orders 1
	// orders hourly 1
}

// A bound is an account: what is counted, by which limit.
func ExampleBound() {
	chain, err := rules.New(rules.Rule{
		Name: "orders", Match: rules.Match{Path: "/orders/"}, Subject: rules.User(),
		Limits: []rules.Limit{{Limit: coord.PerSecond(5)}, {Name: "hourly", Limit: coord.PerHour(1)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ann := chain.Bounds(&rules.Request{Path: "/orders/7", User: "ann"})
	bob := chain.Bounds(&rules.Request{Path: "/orders/7", User: "bob"})
	fmt.Println(ann[0].Limit.Limit, ann[0].Demand.Key != bob[0].Demand.Key)
	// Output: 5/1s true
}

// Two rules of one subject share an account by its name.
func ExampleLimit() {
	daily := rules.Limit{Name: "daily", Limit: coord.Per(100, 24*time.Hour)}
	chain, err := rules.New(
		rules.Rule{Name: "reports", Match: rules.Match{Path: "/reports/"}, Subject: rules.User(), Limits: []rules.Limit{daily}},
		rules.Rule{Name: "exports", Match: rules.Match{Path: "/exports/"}, Subject: rules.User(), Limits: []rules.Limit{daily}},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	report := chain.Bounds(&rules.Request{Path: "/reports/7", User: "ann"})
	export := chain.Bounds(&rules.Request{Path: "/exports/7", User: "ann"})
	fmt.Println(report[0].Demand.Key == export[0].Demand.Key)
	// Output: true
}

// All limits admit a request, or it costs none of them anything.
func ExampleDecision() {
	chain, err := rules.New(rules.Rule{
		Name: "orders", Match: rules.Match{Path: "/orders/"}, Subject: rules.User(),
		Limits: []rules.Limit{{Limit: coord.PerSecond(5)}, {Name: "hourly", Limit: coord.PerHour(1)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := coord.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	for range 2 {
		d, err := chain.Allow(context.Background(), client, &rules.Request{Path: "/orders/7", User: "ann"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Tightest().Name(), d.RetryAfter() > 0)
	}
	// Output:
	// true hourly false
	// false hourly true
}

// A chain asks any limiter, such as one that admits all.
func ExampleLimiter() {
	chain, err := rules.New(rules.Rule{
		Name: "orders", Match: rules.Match{Path: "/orders/"}, Subject: rules.User(),
		Limits: []rules.Limit{{Limit: coord.PerSecond(5)}, {Name: "hourly", Limit: coord.PerHour(1)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := chain.Allow(context.Background(), generous{}, &rules.Request{Path: "/orders/7", User: "ann"})
	fmt.Println(d.Allowed, err)
	// Output: true <nil>
}

// Whose requests are counted together.
func ExampleSubject() {
	for _, s := range []rules.Subject{rules.Everyone(), rules.IP(), rules.User(), rules.Header("X-Tenant"), rules.APIKey("X-Key"), rules.Constant("batch")} {
		fmt.Printf("%q %q\n", s.Kind, s.Name)
	}
	// Output:
	// "" ""
	// "ip" ""
	// "user" ""
	// "header" "X-Tenant"
	// "api-key" "X-Key"
	// "constant" "batch"
}

// Each user of each tenant has limits of their own.
func ExampleCombine() {
	chain, err := rules.New(rules.Rule{
		Name: "orders", Subject: rules.Combine(rules.User(), rules.Header("X-Tenant")),
		Limits: []rules.Limit{{Limit: coord.PerSecond(5)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, tenant := range []string{"acme", "emca"} {
		r := &rules.Request{User: "ann", Header: func(string) string { return tenant }}
		fmt.Println(chain.Bounds(r)[0].Demand.Key)
	}
	// Output:
	// rule/orders/user/ann/header x-tenant/acme
	// rule/orders/user/ann/header x-tenant/emca
}

// A function of the program says whose requests are counted together.
func ExampleFunc() {
	chain, err := rules.New(rules.Rule{
		Name: "orders", Subject: rules.Func("order"), Limits: []rules.Limit{{Limit: coord.PerSecond(5)}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := &rules.Request{Func: func(name string) (string, bool) { return "7", name == "order" }}
	fmt.Println(chain.Bounds(r)[0].Demand.Key)
	// Output: rule/orders/func order/7
}

func ExampleKind() {
	fmt.Println(rules.User().Kind == rules.KindUser)
	// Output: true
}

// A rule in shadow mode decides, and the request is admitted.
func ExampleShadow() {
	client, err := coord.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	chain, err := rules.New(rules.Rule{Name: "strict", Shadow: true, Limits: []rules.Limit{{Limit: coord.PerHour(1)}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		d, err := chain.Allow(context.Background(), client, &rules.Request{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("admitted:", d.Allowed)
		for _, s := range d.Shadow {
			fmt.Println(s.Rule, "would have denied it:", s.Denied())
		}
	}
	// Output:
	// admitted: true
	// strict would have denied it: false
	// admitted: true
	// strict would have denied it: true
}
