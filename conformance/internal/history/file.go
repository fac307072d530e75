package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/coordgo/coord/driver"
)

// maxOperations and maxTime bound what is read: more no case records.
const (
	maxOperations = 100_000
	maxTime       = int64(24 * time.Hour)
)

// Read reads a history that Write wrote. It refuses numbers with which the models could not compute.
func Read(r io.Reader) (Heading, []Operation, error) {
	var head Heading
	var ops []Operation
	dec := json.NewDecoder(bufio.NewReader(r))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&head); err != nil {
		return head, nil, fmt.Errorf("heading of a history: %w", err)
	}
	if head.Lapse < 0 || int64(head.Lapse) > maxTime {
		return head, nil, fmt.Errorf("heading of a history: lapse %v: want 0 to %v", head.Lapse, time.Duration(maxTime))
	}
	for {
		var o Operation
		switch err := dec.Decode(&o); {
		case errors.Is(err, io.EOF):
			return head, ops, nil
		case err != nil:
			return head, nil, fmt.Errorf("operation %d: %w", len(ops)+1, err)
		case len(ops) == maxOperations:
			return head, nil, fmt.Errorf("more than %d operations", maxOperations)
		}
		if err := o.check(); err != nil {
			return head, nil, fmt.Errorf("operation %d: %w", len(ops)+1, err)
		}
		if len(ops) > 0 && o.Key != ops[0].Key {
			return head, nil, fmt.Errorf("operation %d is of the key %q, those before it of %q: want one key", len(ops)+1, o.Key, ops[0].Key)
		}
		ops = append(ops, o)
	}
}

// check refuses numbers with which the models could not compute.
func (o *Operation) check() error {
	for _, t := range [...]int64{o.Call, o.Return, o.Start, o.TTL, o.RetryAfter, o.ResetAfter} {
		// A limit of a year says that it takes a year.
		if t < -maxTime || t > 2*int64(Year) {
			return fmt.Errorf("time %d: want at least %d and at most %d", t, -maxTime, 2*int64(Year))
		}
	}
	switch {
	case o.Return < o.Call:
		return fmt.Errorf("returned at %d, before it was called at %d", o.Return, o.Call)
	case o.Return > maxTime:
		return fmt.Errorf("returned at %d: want at most %d", o.Return, maxTime)
	case o.Client < 0 || o.Client > 1000:
		return fmt.Errorf("client %d: want 0 to 1000", o.Client)
	}
	if o.Weight < 0 || o.Weight > driver.MaxPermits || o.Of < 0 || o.Of > driver.MaxPermits {
		return fmt.Errorf("%d of %d permits: want 0 to %d", o.Weight, o.Of, int64(driver.MaxPermits))
	}
	for _, n := range [...]int{o.Slot, o.Min, o.N, o.Granted, o.Remaining} {
		if n < 0 || n > math.MaxInt32 {
			return fmt.Errorf("%d permits: want 0 to %d", n, math.MaxInt32)
		}
	}
	return nil
}

// Write writes the heading and the operations of one key, a line of JSON each.
func Write(w io.Writer, head Heading, ops []Operation) error {
	enc := json.NewEncoder(w)
	if err := enc.Encode(head); err != nil {
		return err
	}
	for i := range ops {
		if err := enc.Encode(&ops[i]); err != nil {
			return err
		}
	}
	return nil
}

// Save writes the operations of one key to a new file in dir, and the drawing of them, if there is one, to another. It
// gives their paths.
func (v *Verdict) Save(dir string, head Heading, ops []Operation) (saved, drawn string, err error) {
	saved, err = save(dir, head, ops)
	if err != nil || !v.drawable {
		return saved, "", err
	}
	drawn = strings.TrimSuffix(saved, filepath.Ext(saved)) + ".html"
	return saved, drawn, porcupine.VisualizePath(v.model, v.info, drawn)
}

func save(dir string, head Heading, ops []Operation) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "coord-history-"+plainName(head.Case)+"-*.jsonl")
	if err != nil {
		return "", err
	}
	return f.Name(), errors.Join(Write(f, head, ops), f.Close())
}

// plainName is s with nothing in it that is special in the name of a file.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, s)
}
