package coord_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coordgo/coord"
	_ "github.com/coordgo/coord/backends/memory"
)

// stream is an answer of a language model, word by word.
const stream = "It depends on what you estimate and on what you use in the end"

// An answer of a language model costs as many tokens as it has: that is known when the stream has ended.
func ExampleClient_Settle() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	limit := coord.Limit{Rate: 100, Per: time.Hour, Burst: 100} // tokens
	for _, estimated := range []int{50, 5} {
		r, err := client.AllowN(ctx, "tenant", limit, estimated)
		fmt.Println("estimated", estimated, "allowed", r.Allowed, "left", r.Remaining, err)

		used := 0
		for range strings.FieldsSeq(stream) {
			used++
		}
		// If ctx were a request's it might have ended: the tokens are used nevertheless.
		settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		err = client.Settle(settle, "tenant", limit, estimated, used)
		cancel()
		r, _ = client.Peek(ctx, "tenant", limit)
		fmt.Println("used", used, "left", r.Remaining, err)
	}
	// Output:
	// estimated 50 allowed true left 50 <nil>
	// used 14 left 86 <nil>
	// estimated 5 allowed true left 81 <nil>
	// used 14 left 72 <nil>
}

// What is charged beyond what is there is a debt, and requests are denied until it is repaid.
func ExampleClient_Charge() {
	ctx := context.Background()
	client, err := coord.Open(ctx, "memory://")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	limit := coord.Limit{Rate: 10, Per: time.Hour, Burst: 10}
	r, err := client.Charge(ctx, "tenant", limit, 25)
	fmt.Println("charged", r.Granted, "left", r.Remaining, err)
	r, err = client.Allow(ctx, "tenant", limit)
	fmt.Println("allowed", r.Allowed, "again in", r.RetryAfter.Round(time.Minute), err)
	// Output:
	// charged 25 left 0 <nil>
	// allowed false again in 1h36m0s <nil>
}
