package envoy_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord/server/envoy"
)

// watched is a Service whose files are watched, and what it reported.
type watched struct {
	*kit
	reports chan string
}

const period = 5 * time.Second

func watch(t *testing.T, dir string) *watched {
	t.Helper()
	w := &watched{kit: start(t, "serve: {envoy: {files: ["+dir+"]}}"), reports: make(chan string, 16)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Watch(ctx, period, func(err error) {
			text := "taken"
			if err != nil {
				text = err.Error()
			}
			w.reports <- text
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// settles waits for two looks, and gives what was reported since.
func (w *watched) settles() string {
	time.Sleep(2*period + period/2)
	synctest.Wait()
	var all []string
	for len(w.reports) > 0 {
		all = append(all, <-w.reports)
	}
	return strings.Join(all, "; ")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func of(n string) string {
	return "domain: d\ndescriptors: [{key: a, rate_limit: {unit: year, requests_per_unit: " + n + "}}]\n"
}

// A changed file is taken; one with a mistake is not, and what was in force stays. The counters go on.
func TestReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "d.yaml")
		write(t, file, of("5"))
		w := watch(t, dir)
		if got := w.hit(t, "a"); !strings.Contains(got, "4/5") {
			t.Fatal(got)
		}
		if got := w.settles(); got != "" {
			t.Errorf("without a change: %s", got)
		}
		for _, step := range []struct{ text, report, answer string }{
			{of("9"), "taken", "7/9"},
			{of("-9"), file + ":2: requests_per_unit: want a whole number from 0 to 4294967295", "6/9"},
			{of("-9") + "# still\n", file + ":2: requests_per_unit: want a whole number from 0 to 4294967295", "5/9"},
			{of("9"), "taken", "4/9"},
			{of("6"), "taken", "0/6"},
		} {
			write(t, file, step.text)
			if got := w.settles(); got != step.report {
				t.Errorf("%s: %q, want %q", step.text, got, step.report)
			}
			if got := w.hit(t, "a"); !strings.Contains(got, step.answer) {
				t.Errorf("%s: %s, want %s", step.text, got, step.answer)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if got := w.settles(); got != "taken" || w.Rules().String() != "" {
			t.Errorf("an empty directory: %q, %s", got, w.Rules())
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if got := w.settles() + w.settles(); !strings.Contains(got, "no such file") || strings.Count(got, "no such file") != 1 {
			t.Errorf("without the directory: %q", got)
		}
		if m := w.meter.seen; m["config_load_success"] != 5 || m["config_load_error"] != 3 {
			t.Errorf("measured: %v", m)
		}
	})
}

// A file that changes at each look is left alone until it rests.
func TestReloadWaitsForRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "d.yaml"), of("1"))
		w := watch(t, dir)
		time.Sleep(period / 2)
		for _, n := range []string{"2", "3", "4", "5"} {
			write(t, filepath.Join(dir, "d.yaml"), of(n))
			time.Sleep(period)
			synctest.Wait()
		}
		if len(w.reports) != 0 {
			t.Errorf("while it changes: %s", <-w.reports)
		}
		if got := w.settles(); got != "taken" || !strings.Contains(w.Rules().String(), "5 a year") {
			t.Errorf("%q, %s", got, w.Rules())
		}
	})
}

// Kubernetes gives a ConfigMap as links into a directory that a link names, and moves that link.
func TestReloadConfigMap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		top := t.TempDir()
		dir := filepath.Join(top, "mount")
		for version, n := range map[string]string{"..1": "1", "..2": "2"} {
			if err := os.MkdirAll(filepath.Join(dir, version), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, version, "d.yaml"), of(n))
		}
		link := func(to, name string) {
			t.Helper()
			next := filepath.Join(top, "next")
			if err := os.Symlink(to, next); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(next, name); err != nil {
				t.Fatal(err)
			}
		}
		link("..1", filepath.Join(dir, "..data"))
		link("..data/d.yaml", filepath.Join(dir, "d.yaml"))
		link("mount", filepath.Join(top, "current"))
		w := watch(t, filepath.Join(top, "current"))
		if got := w.Rules().String(); got != "d.a: 1 a year\n" {
			t.Fatal(got)
		}
		link("..2", filepath.Join(dir, "..data"))
		if got := w.settles(); got != "taken" || w.Rules().String() != "d.a: 2 a year\n" {
			t.Errorf("%q, %s", got, w.Rules())
		}
	})
}

// Files are read by name, those in directories too, and nothing else.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sub", ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	domain := func(name string) string { return strings.Replace(of("1"), "domain: d", "domain: "+name, 1) }
	write(t, filepath.Join(dir, "sub", "x.yaml"), domain("x"))
	write(t, filepath.Join(dir, "sub", ".git", "y.yaml"), domain("y"))
	write(t, filepath.Join(dir, ".hidden"), domain("z"))
	write(t, filepath.Join(dir, "any.name"), domain("a"))
	if err := os.Symlink("sub", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	s, err := envoy.New(open(t, "serve: {envoy: {files: ["+dir+", "+filepath.Join(dir, ".hidden")+"]}}"), envoy.Options{})
	if err != nil || strings.Join(s.Rules().Domains(), " ") != "a x z" {
		t.Errorf("%v, %v", s, err)
	}
	write(t, filepath.Join(dir, "huge"), "#"+strings.Repeat(" ", 4<<20))
	for path, want := range map[string]string{dir: "huge: more than 4194304 bytes", dir + "/none": "no such file"} {
		if _, err := envoy.New(open(t, "serve: {envoy: {files: ["+path+"]}}"), envoy.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v: want %s", path, err, want)
		}
	}
}
