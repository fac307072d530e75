package conformance

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

// A history is saved as lines of JSON: the heading, and then one line for each operation.

// HistoriesEnv names the environment variable with the directory in which failing histories are
// saved. Without it they are saved in the directory for temporary files.
const HistoriesEnv = "COORD_CONFORMANCE_HISTORIES"

// ErrNotLinearizable tells of a history that no order of its operations explains.
var ErrNotLinearizable = errors.New("history is not linearizable")

// CheckHistory reads a history that a failing case has saved and checks it again, for at most
// patience, and without a bound if that is 0. It gives nil if the history is
// linearizable, an error that matches [ErrNotLinearizable] if not, and another one if it is
// unreadable or was not decided in time. If drawing is not nil, it is given the drawing: a page of HTML. A history of
// shared holds has none.
func CheckHistory(saved io.Reader, patience time.Duration, drawing io.Writer) error {
	head, ops, err := readHistory(saved)
	if err != nil {
		return err
	}
	if head.Model == modelShares {
		return checkShares(head, ops)
	}
	v, err := head.check(ops, patience)
	if err != nil {
		return err
	}
	if drawing != nil {
		if err := porcupine.Visualize(v.model, v.info, drawing); err != nil {
			return fmt.Errorf("drawing of the history: %w", err)
		}
	}
	switch v.result {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return ErrNotLinearizable
	}
	return fmt.Errorf("history of %d operations was not decided within %v", len(ops), patience)
}

// maxOperations and maxTime bound what is read: more no case records.
const (
	maxOperations = 100_000
	maxTime       = int64(24 * time.Hour)
)

// readHistory reads what writeHistory wrote.
func readHistory(r io.Reader) (heading, []operation, error) {
	var head heading
	var ops []operation
	dec := json.NewDecoder(bufio.NewReader(r))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&head); err != nil {
		return head, nil, fmt.Errorf("heading of a history: %w", err)
	}
	if head.Lapse < 0 || int64(head.Lapse) > maxTime {
		return head, nil, fmt.Errorf("heading of a history: lapse %v: want 0 to %v", head.Lapse, time.Duration(maxTime))
	}
	for {
		var o operation
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
func (o *operation) check() error {
	for _, t := range [...]int64{o.Call, o.Return, o.Start, o.TTL, o.RetryAfter, o.ResetAfter} {
		// A limit of a year says that it takes a year.
		if t < -maxTime || t > 2*int64(year) {
			return fmt.Errorf("time %d: want at least %d and at most %d", t, -maxTime, 2*int64(year))
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

func writeHistory(w io.Writer, head heading, ops []operation) error {
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

// save writes the operations of one key, and the drawing of them, and gives the paths.
func (v *verdict) save(head heading, ops []operation) (saved, drawn string, err error) {
	saved, err = saveHistory(head, ops)
	if err != nil {
		return "", "", err
	}
	drawn = strings.TrimSuffix(saved, filepath.Ext(saved)) + ".html"
	return saved, drawn, porcupine.VisualizePath(v.model, v.info, drawn)
}

// saveHistory writes the operations of one key to a new file, and gives its path.
func saveHistory(head heading, ops []operation) (string, error) {
	dir := os.Getenv(HistoriesEnv)
	if dir == "" {
		dir = os.TempDir()
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "coord-history-"+plainName(head.Case)+"-*.jsonl")
	if err != nil {
		return "", err
	}
	return f.Name(), errors.Join(writeHistory(f, head, ops), f.Close())
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
