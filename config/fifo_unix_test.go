//go:build unix

package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coordgo/coord/config"
)

// A FIFO that nobody writes to holds up nothing beyond the context, as the file and as a secret.
func TestReadEndsWithTheContext(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	for name, read := range map[string]func(fifo string) error{
		"Open": func(fifo string) error {
			_, err := config.Open(ctx, fifo)
			return err
		},
		"LoadEnv": func(fifo string) error {
			_, err := config.LoadEnv(ctx, fifo, os.LookupEnv)
			return err
		},
		"a secret": func(fifo string) error {
			c, err := config.Load(file(t, "url: 'redis://:${file:"+fifo+"}@127.0.0.1:1'\n"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Open(ctx)
			return err
		},
	} {
		fifo := filepath.Join(t.TempDir(), "fifo") // each reader has its own: the writer below meets it alone
		if err := unix.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := read(fifo); !errors.Is(err, stopped) {
			t.Errorf("%s: %v, want that it was stopped", name, err)
		}
		w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // the reader may end
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
