package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coordgo/coord"
)

// What a node answers.
const (
	placed   = "placed"             // 201 Created
	underway = "being placed"       // 409 Conflict
	before   = "was placed already" // 200 OK
)

// shop is the application: records of orders, and a ledger of what was charged.
type shop struct {
	client    *coord.Client
	name, dir string
}

// submit places an order, unless another node is at it, or has been.
func (s *shop) submit(ctx context.Context, order string) (said string, err error) {
	if *withoutLock {
		return s.place(order)
	}
	ran, err := coord.TryDo(ctx, s.client, coord.Key("order", order), func(context.Context) error {
		said, err = s.place(order)
		return err
	}, coord.TTL(10*time.Second))
	if !ran && err == nil {
		return underway, nil
	}
	return said, err
}

// place charges the customer and makes the record, if there is none.
func (s *shop) place(order string) (said string, err error) {
	if _, err := os.Stat(s.record(order)); !errors.Is(err, os.ErrNotExist) {
		return before, err
	}
	time.Sleep(5 * time.Millisecond) // the bank takes its time
	if err := s.charge(order); err != nil {
		return "", err
	}
	return placed, os.WriteFile(s.record(order), []byte(s.name), 0o600)
}

func (s *shop) record(order string) string { return filepath.Join(s.dir, "order-"+order) }
func (s *shop) ledger() string             { return filepath.Join(s.dir, "ledger") }

// charge adds a line to the ledger.
func (s *shop) charge(order string) (err error) {
	f, err := os.OpenFile(s.ledger(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = fmt.Fprintln(f, order, s.name)
	return err
}

// audit counts the charges of a ledger, and the orders with more than one.
func audit(ledger string) (charges, twice int) {
	count := make(map[string]int)
	for line := range strings.Lines(ledger) {
		order, _, _ := strings.Cut(line, " ")
		if count[order]++; count[order] == 2 {
			twice++
		}
		charges++
	}
	return charges, twice
}
