package main

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestTry(t *testing.T) {
	exampletest.Kept(t, "none is lost", "--config", "coord.yaml", "--listen", "localhost:0", "--try", "--url", "memory://")
}

func TestWithoutTheLockChangesAreLost(t *testing.T) {
	exampletest.Broken(t, "--config", "coord.yaml", "--listen", "localhost:0", "--try", "--without-lock")
}

// The same service with another store: one line of the file. Interrupted, it gives back what clients have locked.
func TestOnFiles(t *testing.T) {
	text, err := os.ReadFile("coord.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "coord.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "memory://httpapi", "file://"+t.TempDir(), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exampletest.Command(t, "--config", file, "--listen", "localhost:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	base, ok := strings.CutSuffix(line, "/ on file\n")
	if err != nil || !ok {
		t.Fatalf("it says %q, %v", line, err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	s := scenario{base: base, client: client, say: func(line string) { t.Log(line) }}
	if err := s.play(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := s.ask(t.Context(), "POST", "/locks/left?for=1m", "", 201); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted, it ends with %v", err)
	}
	wantFree(t.Context(), t, file, "left")
}

func wantFree(ctx context.Context, t *testing.T, file, name string) {
	t.Helper()
	client, err := config.Open(ctx, file)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Inspect(ctx, coord.Key("lock", name)); !errors.Is(err, coord.ErrNotHeld) {
		t.Errorf("after the service has ended, a lock that a client had: %v", err)
	}
}
