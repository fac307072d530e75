package rules_test

import (
	"context"
	"fmt"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/rules"
)

func ExampleChain() {
	client, err := coord.New(memory.New())
	if err != nil {
		panic(err)
	}
	defer client.Close()

	chain, err := rules.New(
		rules.Rule{Name: "health", Match: rules.Match{Path: "/healthz"}, Final: true},
		rules.Rule{
			Name: "orders", Match: rules.Match{Methods: []string{"POST"}, Path: "/orders/"}, Subject: rules.User(),
			Limits: []rules.Limit{{Limit: coord.PerHour(2)}},
		},
		rules.Rule{Name: "everything", Limits: []rules.Limit{{Limit: coord.PerSecond(2000)}}},
	)
	if err != nil {
		panic(err)
	}
	for range 3 {
		d, err := chain.Allow(context.Background(), client, &rules.Request{Method: "POST", Path: "/orders/7", User: "ann"})
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Allowed, d.Tightest().Name(), d.Tightest().Result.Remaining)
	}
	// Output:
	// true orders 1
	// true orders 0
	// false orders 0
}
