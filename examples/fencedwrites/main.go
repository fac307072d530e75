// Command fencedwrites freezes the holder of a lock beyond its lease, lets another have the lock, and wakes the first, who
// knows nothing of it and writes to the database. The row remembers the greatest fencing token, and refuses:
//
//	go run ./fencedwrites
//	go run ./fencedwrites --url redis://localhost:6379
//	go run ./fencedwrites --without-guard
//
// No lock can prevent this by itself: between looking at the lock and writing, a process may be stopped for as long as you
// like. The comparison happens where the write does, in the same statement.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/examples/internal/program"
)

var (
	ttl          = flag.Duration("ttl", 2*time.Second, "the lease of the lock")
	withoutGuard = flag.Bool("without-guard", false, "write without comparing tokens, to see what they are for")
)

func main() { program.Main(bank, teller) }

const deposit = 100 // in the account at first

// withdrawals are what each teller is asked for. The account has enough for one of them.
var withdrawals = map[string]int{"A": 80, "B": 60}

// step is what a teller tells: what it has read, or what came of its write.
type step struct {
	Read, Wrote, Refused bool
	Balance              int
	Token                coord.Token
}

// teller makes one withdrawal under the lock: it reads the balance, and writes what is left.
func teller(ctx context.Context, p *program.Program) error {
	db, err := open(p)
	if err != nil {
		return err
	}
	defer db.Close()
	client, err := p.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := p.Ready(ctx); err != nil {
		return err
	}
	for told := false; !told; { // again if the lease ends before it has told what it reads
		err := coord.Do(ctx, client, "account/7", func(held context.Context) (err error) {
			told, err = withdraw(ctx, held, p, db)
			return err
		}, coord.TTL(*ttl))
		if err != nil && !errors.Is(err, coord.ErrLost) {
			return err
		}
	}
	return nil // A learns only now that it has lost the lock
}

// withdraw reads the balance under the lock of held, tells it, and writes what is left when it may go on.
func withdraw(ctx, held context.Context, p *program.Program, db *sql.DB) (told bool, err error) {
	lock, _ := coord.Held(held, "account/7")
	balance, err := read(held, db)
	if err != nil {
		return false, err
	}
	if err := p.Tell(step{Read: true, Balance: balance, Token: lock.Token()}); err != nil {
		return false, err
	}
	// Here A is frozen. It goes on as if nothing had happened: with ctx, which knows nothing of the lock.
	if _, err := p.Word(ctx); err != nil {
		return true, err
	}
	balance -= withdrawals[p.Name]
	err = write(ctx, db, balance, lock.Token())
	refused := errors.Is(err, coord.ErrLost)
	if err != nil && !refused {
		return true, err
	}
	return true, p.Tell(step{Wrote: !refused, Refused: refused, Balance: balance})
}

// bank freezes A, lets B make its withdrawal, and lets A go on.
func bank(ctx context.Context, p *program.Program) (err error) {
	db, err := open(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := create(ctx, db); err != nil {
		return err
	}
	crew, err := program.Start[step](ctx, p, "A", "B")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crew.End()) }()
	a, b := crew.Process("A"), crew.Process("B")
	paid := 0
	told := func() (coord.Token, error) {
		e, err := crew.Next()
		switch s := e.What; {
		case err != nil:
		case s.Read:
			p.Say("%s has the lock, and reads %d", e.By.Name, s.Balance)
		case s.Wrote:
			paid += withdrawals[e.By.Name]
			p.Say("%s pays out %d, and writes %d", e.By.Name, withdrawals[e.By.Name], s.Balance)
		default:
			p.Say("%s would pay out %d and write %d, and is refused", e.By.Name, withdrawals[e.By.Name], s.Balance)
		}
		return e.What.Token, err
	}
	var first, second coord.Token
	for _, do := range []func() error{
		a.Go,
		func() error { first, err = told(); return err },
		func() error { p.Say("A is frozen with kill -STOP"); return a.Freeze() },
		b.Go,
		func() error { second, err = told(); return err },
		func() error { return b.Say("write") },
		func() error { _, err := told(); return err },
		func() error { p.Say("A goes on"); return a.Thaw() },
		func() error { return a.Say("write") },
		func() error { _, err := told(); return err },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	balance, err := read(ctx, db)
	if err != nil {
		return err
	}
	p.Check(second > first, "B's token is greater than A's")
	p.Check(balance == deposit-paid, "of %d, %d was paid out, and the account says %d", deposit, paid, balance)
	return nil
}
