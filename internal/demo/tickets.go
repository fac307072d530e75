package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/coordgo/coord"
)

const (
	sellers = 5
	stock   = 20
)

// tickets: five processes sell twenty tickets. How many are left is a number in a
// file, read, decremented and written back, with nothing to protect it but the lock.
func (s *stage) tickets() error {
	s.act("%d processes sell %d tickets from one file, under a lock", sellers, stock)
	s.print("  ")
	sales, err := s.sellOut("locked", true, func(seller string, e event) {
		s.print(fmt.Sprintf(" %s%d", seller, e.Ticket))
	})
	s.print("\n")
	if err != nil {
		return err
	}
	twice, rising := audit(sales)
	s.check(len(sales) == stock && twice == 0, "sold %d, sold twice %d", len(sales), twice)
	s.check(rising, "the fencing token rises with every sale")

	sales, err = s.sellOut("unlocked", false, nil)
	if err != nil {
		return err
	}
	twice, _ = audit(sales)
	s.note("the same without the lock: sold %d, and %d of the %d tickets more than once", len(sales), twice, stock)
	return nil
}

// sellOut lets processes sell all tickets.
func (s *stage) sellOut(name string, locked bool, show func(seller string, e event)) (sales []event, err error) {
	file := filepath.Join(s.dir, name)
	if err := os.WriteFile(file, []byte(strconv.Itoa(stock)), 0o600); err != nil {
		return nil, err
	}
	jobs := make([]job, sellers)
	for i := range jobs {
		jobs[i] = job{Role: seller, Name: letter(i), File: file, Locked: locked}
	}
	all, err := s.startAll(jobs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end(all...)) }()
	type heard struct {
		p  *process
		e  event
		ok bool
	}
	events := make(chan heard)
	for _, p := range all {
		if err := p.tell(wordGo); err != nil {
			return nil, err
		}
		go func() {
			for more := true; more; {
				e, ok := <-p.events
				more = ok && e.Kind == sold
				select {
				case events <- heard{p, e, ok}:
				case <-s.ctx.Done():
					return
				}
			}
		}()
	}
	for left := sellers; left > 0; {
		select {
		case h := <-events:
			if h.ok && h.e.Kind == sold {
				sales = append(sales, h.e)
				if show != nil {
					show(h.p.name, h.e)
				}
				continue
			}
			if err := h.p.expected(h.e, h.ok, done); err != nil {
				return nil, err
			}
			left--
		case <-s.ctx.Done():
			return nil, s.ctx.Err()
		}
	}
	return sales, nil
}

func letter(i int) string { return string(rune('A' + i)) }

// audit counts the tickets that were sold more than once, and looks whether tokens rise
// in the order in which the tickets went.
func audit(sales []event) (twice int, rising bool) {
	count := make(map[int]int)
	for _, e := range sales {
		if count[e.Ticket]++; count[e.Ticket] == 2 {
			twice++
		}
	}
	ordered := slices.Clone(sales)
	slices.SortStableFunc(ordered, func(a, b event) int { return b.Ticket - a.Ticket })
	rising = true
	for i := 1; i < len(ordered); i++ {
		rising = rising && ordered[i-1].Token < ordered[i].Token
	}
	return twice, rising
}

// sell sells until nothing is left.
func (w *worker) sell(ctx context.Context) error {
	for more := true; more; {
		var err error
		if w.Locked {
			err = coord.Do(ctx, w.client, "tickets", func(ctx context.Context) error {
				lock, _ := coord.Held(ctx, "tickets")
				more, err = w.sellOne(lock.Token())
				return err
			}, coord.TTL(10*time.Second))
		} else {
			more, err = w.sellOne(0)
		}
		if err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond) // the buyer leaves
	}
	return w.out.Encode(event{Kind: done})
}

// sellOne sells one ticket, as a program would that thinks it is alone.
func (w *worker) sellOne(token coord.Token) (more bool, err error) {
	text, err := os.ReadFile(w.File)
	if err != nil {
		return false, err
	}
	left, err := strconv.Atoi(string(text))
	if err != nil || left == 0 {
		return false, err
	}
	time.Sleep(5 * time.Millisecond) // the buyer pays
	own := w.File + "." + w.Name
	if err := os.WriteFile(own, []byte(strconv.Itoa(left-1)), 0o600); err != nil {
		return false, err
	}
	if err := os.Rename(own, w.File); err != nil {
		return false, err
	}
	return true, w.out.Encode(event{Kind: sold, Ticket: left, Token: token})
}
