package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coordgo/coord/internal/demo"
)

// The demonstration starts this program again for each of its processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == demo.WorkerCommand {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestDemo(t *testing.T) {
	t.Parallel()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := run(t.Context(), nil, nil, out); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	said := string(text)
	for _, want := range []string{
		"sold 20, sold twice 0", "rises with every sale", "its token is greater", "it knows that it has lost the lock",
		"its old token is refused", `in the first second \d+`, `never more than \d+ in any second`, // 200, where the store is fast enough
	} {
		if !regexp.MustCompile(want + `.* ok\n`).MatchString(said) {
			t.Errorf("not shown as kept: %q", want)
		}
	}
	if strings.Contains(said, "\x1b") {
		t.Error("colours, although it is no terminal")
	}
	if !strings.HasSuffix(said, "\nThe same on Redis:  go run ./cmd/coord demo --url redis://127.0.0.1:6379\n") {
		t.Error("it does not end with the command for Redis")
	}
	if t.Failed() {
		t.Log(said)
	}
}

func TestUsage(t *testing.T) {
	if err := run(t.Context(), []string{"--url", "redis://127.0.0.1"}, nil, nil); err == nil || !strings.Contains(err.Error(), `unexpected argument "--url"`) {
		t.Errorf("run = %v", err)
	}
	if err := run(t.Context(), []string{demo.WorkerCommand}, strings.NewReader(""), nil); err == nil || !strings.Contains(err.Error(), "for the demonstration alone") {
		t.Errorf("a worker without a job: %v", err)
	}
}
