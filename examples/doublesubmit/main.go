// Command doublesubmit sends each order to two nodes at once, as an impatient customer does, and once more later. It is
// charged once:
//
//	go run ./doublesubmit
//	go run ./doublesubmit --url redis://localhost:6379
//	go run ./doublesubmit --without-lock
//
// A record of the order says that it was placed. Two nodes that look for it at once would both find none; the lock lets only
// one of them look. In a service behind HTTP, httpcoord.Idempotency does this.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/coordgo/coord/examples/internal/program"
)

const orders = 25

var withoutLock = flag.Bool("without-lock", false, "look for the record alone, to see what the lock is for")

func main() { program.Main(customer, node) }

type answer struct{ Order, Said string }

// node places the orders that it is sent.
func node(ctx context.Context, p *program.Program) error {
	client, err := p.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	shop := &shop{client: client, name: p.Name, dir: p.Dir}
	if err := p.Ready(ctx); err != nil {
		return err
	}
	for {
		order, err := p.Word(ctx)
		if err != nil {
			return err
		}
		said, err := shop.submit(ctx, order)
		if err != nil {
			return err
		}
		if err := p.Tell(answer{order, said}); err != nil {
			return err
		}
	}
}

// customer sends each order to both nodes, then all of them again, and reads the ledger.
func customer(ctx context.Context, p *program.Program) (err error) {
	crew, err := program.Start[answer](ctx, p, "A", "B")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crew.End()) }()
	if err := crew.Go(); err != nil {
		return err
	}
	p.Say("%d orders, each sent to two nodes at once, and to both again later", orders)
	first, later := make(map[string]int), make(map[string]int)
	for _, answers := range []map[string]int{first, later} {
		for i := range orders {
			if err := crew.Say(fmt.Sprint(i)); err != nil {
				return err
			}
			for e, err := range crew.Events(2) {
				if err != nil {
					return err
				}
				answers[e.What.Said]++
			}
		}
	}
	ledger, err := os.ReadFile((&shop{dir: p.Dir}).ledger())
	if err != nil {
		return err
	}
	charges, twice := audit(string(ledger))
	p.Check(charges == orders && twice == 0, "%d charges, %d orders charged more than once", charges, twice)
	p.Check(first[placed] == orders, "at first: %s", told(first))
	p.Check(later[placed] == 0, "later:    %s", told(later))
	return nil
}

func told(answers map[string]int) string {
	return fmt.Sprintf("%d %s, %d %s, %d %s", answers[placed], placed, answers[underway], underway, answers[before], before)
}
