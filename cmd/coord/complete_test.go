package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The command after -- is completed by programs, what follows it by files, and a limit by the file's names.
func TestCompletion(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	bin, file := filepath.Join(u.dir, "bin"), filepath.Join(u.dir, "coord.yaml")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"backup-db": 0o700, "backup-notes": 0o600, "other": 0o700} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte("limits: {supplier: 2000/1m, sms: 1/1s, mail: 1/1s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.env = append(u.env, "PATH="+bin)
	const files, noFiles = ":0", ":4"
	const commands = "charge Debit permits of a limit, whatever is left list List the limits and the rules of --config " +
		"override Multiply a limit for a while overrides List what coord limit override has done " +
		"peek Show what is left of a limit, and take nothing reset Forget what was taken from a limit "
	for _, tt := range []struct {
		args, want string
	}{
		{"lock|", noFiles},
		{"lock|a|--|backup", "backup-db " + files},
		{"lock|a|--|./", files},
		{"lock|a|--|backup-db|", files},
		{"lock|a|--wait|", noFiles},
		{"limit|", commands + noFiles},
		{"--config|" + file + "|limit|", commands + "mail sms supplier " + noFiles},
		{"--config|" + file + "|limit|s", "sms supplier " + noFiles},
		{"--config|" + u.dir + "|limit|s", noFiles},
		{"limit|supplier|--|oth", "other " + files},
	} {
		r := u.run(append([]string{"__complete"}, strings.Split(tt.args, "|")...)...)
		if got := strings.Join(strings.Fields(r.stdout), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.args, got, tt.want)
		}
	}
}

// Names that are held are completed, where the store lists them.
func TestCompletionOfHeldNames(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, u *user) {
		var held []*session
		for _, name := range []string{"nightly/a", "nightly/b", "other"} {
			s, _ := u.hold("lock", name)
			held = append(held, s)
		}
		for args, want := range map[string]string{
			"status|night": "nightly/a nightly/b :4", "break|o": "other :4", "watch|other|nightly/a": "nightly/a :4", "release|oth": "other :4",
			"lock|oth": "other :4", "lead|oth": "other :4", "status|other|": ":4", "break|none": ":4",
		} {
			if !u.store.lists {
				want = ":4"
			}
			r := u.run(append([]string{"__complete"}, strings.Split(args, "|")...)...)
			if got := strings.Join(strings.Fields(r.stdout), " "); got != want {
				t.Errorf("%s: %q, want %q", args, got, want)
			}
		}
		for _, s := range held {
			s.release()
		}
	})
	u := newUser(t, "redis://127.0.0.1:1")
	if got := u.run("__complete", "status", "a").stdout; got != ":4\n" {
		t.Errorf("without a server: %q", got)
	}
}

// Help shows the commands by what they are for, and the one that nobody calls not at all.
func TestHelpIsInGroups(t *testing.T) {
	t.Parallel()
	help := newUser(t, "").run("--help").stdout
	at := -1
	for _, title := range []string{"Run under a lock:\n  acquire", "Limit a rate:\n  limit", "See and break:\n  break", "Choose and check a store:\n  config", "This program:\n  completion"} {
		next := strings.Index(help, title)
		if next <= at {
			t.Errorf("%q is not in its place:\n%s", title, help)
		}
		at = next
	}
	if strings.Contains(help, "Available Commands") || strings.Contains(help, "Additional Commands") || strings.Contains(help, "\n:\n") {
		t.Errorf("a group without a title:\n%s", help)
	}
}

// Shells that are here can read what they are given.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	u := newUser(t, "")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue // TestHelp has looked at the script
		}
		script := filepath.Join(u.dir, shell)
		if err := os.WriteFile(script, []byte(u.run("completion", shell).stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(path, "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
	}
}
