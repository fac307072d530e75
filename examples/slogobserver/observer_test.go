package slogobserver

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/coordtest"
	"github.com/coordgo/coord/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A lost lock is one line, with its key, token and reason.
func TestLog(t *testing.T) {
	var text bytes.Buffer
	client := coordtest.New(t, coord.WithObserver(Log(slog.New(slog.NewTextHandler(&text, nil)))))
	err := coord.Do(t.Context(), client.Client, "invoices", func(ctx context.Context) error {
		client.Lose("invoices")
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, coord.ErrLost) {
		t.Error(err)
	}
	for _, part := range []string{"level=ERROR", `msg="coord: lock lost"`, "key=invoices", "reason=revoked", "token=1"} {
		if strings.Count(text.String(), part) != 1 {
			t.Errorf("%s is not once in %s", part, text.String())
		}
	}
}

// Renewals that fail and limits that do not hold are warnings.
func TestWarnings(t *testing.T) {
	var text bytes.Buffer
	o := Log(slog.New(slog.NewTextHandler(&text, nil)))
	o.RenewFailed(t.Context(), observe.RenewFailed{Lock: observe.Lock{Key: "invoices", Token: 7}, Err: coord.ErrUnavailable})
	o.Degraded(t.Context(), observe.Decision{Key: "supplier", Granted: 3, Err: coord.ErrUnavailable})
	for _, part := range []string{"key=invoices token=7 left=0s", "key=supplier permits=3"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%s is not in %s", part, text.String())
		}
	}
}
