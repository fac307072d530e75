package otelcoord_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/backends/memory"
	"github.com/coordgo/coord/otelcoord"
)

// Metrics and traces go to the global providers, unless others are given.
func ExampleNew() {
	observer, err := otelcoord.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := coord.New(memory.New(), coord.WithObserver(observer))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println(coord.Do(context.Background(), client, "invoices", func(context.Context) error { return nil }))
	// Output: <nil>
}

// A key is shown as the kind of thing that it names, so that a metric has few.
func ExampleOption() {
	class := func(key string) string {
		kind, _, _ := strings.Cut(key, "/")
		return kind
	}
	_, err := otelcoord.New(otelcoord.WithKey(class))
	fmt.Println(class("order/4711"), err)
	// Output: order <nil>
}

// What is recorded can be listed, for a dashboard or a page.
func ExampleMetric() {
	for _, m := range otelcoord.Metrics() {
		if m.Name == "coord.lock.losses" {
			fmt.Println(m.Kind, m.Unit, m.Attributes)
		}
	}
	// Output: counter {lock} [coord.reason]
}
