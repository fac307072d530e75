// Command ticketing sells twenty tickets at five windows, each an operating system process, and none of them twice:
//
//	go run ./ticketing
//	go run ./ticketing --url redis://localhost:6379
//	go run ./ticketing --without-lock
//
// How many tickets are left is a number in a file, which every window reads, decrements and writes back. Nothing protects
// it but a lock; without it, tickets are sold more than once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/program"
)

const stock = 20

var (
	windows     = []string{"A", "B", "C", "D", "E"}
	withoutLock = flag.Bool("without-lock", false, "sell without the lock, to see what it is for")
)

func main() { program.Main(office, window) }

// sale is what a window tells of a ticket that it has sold; one without a ticket is that all are sold.
type sale struct {
	Ticket int
	Token  coord.Token
}

// window sells tickets until there are none.
func window(ctx context.Context, p *program.Program) error {
	client, err := p.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := p.Ready(ctx); err != nil {
		return err
	}
	for {
		s, err := sell(ctx, client, p)
		if err != nil {
			return err
		}
		if err := p.Tell(s); err != nil || s.Ticket == 0 {
			return err
		}
		time.Sleep(2 * time.Millisecond) // until the next buyer comes
	}
}

// sell sells a ticket under the lock.
func sell(ctx context.Context, client *coord.Client, p *program.Program) (s sale, err error) {
	if *withoutLock {
		s.Ticket, err = take(stockFile(p), p.Name)
		return s, err
	}
	err = coord.Do(ctx, client, "tickets", func(ctx context.Context) error {
		lock, _ := coord.Held(ctx, "tickets")
		s.Token = lock.Token()
		s.Ticket, err = take(stockFile(p), p.Name)
		return err
	})
	return s, err
}

// take takes one ticket from the stock, as a program would that is alone; 0 is that none is left.
func take(file, window string) (ticket int, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	left, err := strconv.Atoi(string(text))
	if err != nil || left == 0 {
		return 0, err
	}
	time.Sleep(2 * time.Millisecond) // the buyer pays
	if err := os.WriteFile(file+window, []byte(strconv.Itoa(left-1)), 0o600); err != nil {
		return 0, err
	}
	return left, os.Rename(file+window, file)
}

func stockFile(p *program.Program) string { return filepath.Join(p.Dir, "tickets") }

// office opens the windows, and looks whether what they sold adds up.
func office(ctx context.Context, p *program.Program) (err error) {
	if err := os.WriteFile(stockFile(p), []byte(strconv.Itoa(stock)), 0o600); err != nil {
		return err
	}
	crew, err := program.Start[sale](ctx, p, windows...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crew.End()) }()
	p.Say("%d windows sell %d tickets", len(windows), stock)
	if err := crew.Go(); err != nil {
		return err
	}
	var sales []sale
	var line strings.Builder
	for open := len(windows); open > 0; {
		e, err := crew.Next()
		switch {
		case err != nil:
			return err
		case e.What.Ticket == 0:
			open--
		default:
			sales = append(sales, e.What)
			fmt.Fprintf(&line, " %s%d", e.By.Name, e.What.Ticket)
		}
	}
	p.Say("window and ticket:%s", line.String())
	twice, rising := audit(sales)
	p.Check(len(sales) == stock && twice == 0, "%d tickets sold, %d of them more than once", len(sales), twice)
	p.Check(rising, "the fencing token rises from sale to sale")
	return nil
}

// audit counts the tickets that were sold more than once, and tells whether tokens rise in the order of the sales.
func audit(sales []sale) (twice int, rising bool) {
	slices.SortStableFunc(sales, func(a, b sale) int { return b.Ticket - a.Ticket }) // the last ticket has number 1
	rising = true
	for i, s := range sales {
		if i == 0 {
			continue
		}
		before := sales[i-1]
		rising = rising && before.Token < s.Token
		if s.Ticket == before.Ticket && (i == 1 || sales[i-2].Ticket != s.Ticket) {
			twice++
		}
	}
	return twice, rising
}
