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
	for _, tt := range []struct {
		args, want string
	}{
		{"lock|", noFiles},
		{"lock|a|--|backup", "backup-db " + files},
		{"lock|a|--|./", files},
		{"lock|a|--|backup-db|", files},
		{"lock|a|--wait|", noFiles},
		{"limit|", noFiles},
		{"--config|" + file + "|limit|", "mail sms supplier " + noFiles},
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
