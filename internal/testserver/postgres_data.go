package testserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }

// postgresSetUp makes the data directory: a copy, save of a server with options.
func postgresSetUp(s *Server, binary string) error {
	if c := &s.config; c.password != "" || c.tls || c.disk != "" {
		return s.initdb(binary)
	}
	template, err := s.postgresTemplate(binary)
	if err != nil {
		return err
	}
	return copyTree(template, s.dataDir())
}

// postgresTemplate is a data directory to be copied. To make one takes a second of two cores, and much longer beside other
// tests, so that this version's is kept where programs cache files. Several processes may make it at the same time. All its
// copies have one system identifier.
func (s *Server) postgresTemplate(binary string) (string, error) {
	version, err := s.postgresRun(binary, "postgres", "--version")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	template := filepath.Join(cache, "coord-test", fmt.Sprintf("%s, user %d", version, os.Geteuid()))
	if _, err := os.Stat(template); !errors.Is(err, fs.ErrNotExist) {
		return template, err
	}
	if err := s.initdb(binary); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(template), 0o755); err != nil {
		return "", err
	}
	part, err := os.MkdirTemp(filepath.Dir(template), "part-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	whole := filepath.Join(part, "data")
	if err := copyTree(s.dataDir(), whole); err != nil {
		return "", err
	}
	if err := os.Rename(whole, template); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return template, os.RemoveAll(s.dataDir())
}

// copyTree copies a directory, with owners and modes.
func copyTree(from, to string) error {
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return nil
}

// initdb makes a data directory as the options want it.
func (s *Server) initdb(binary string) error {
	method := "trust"
	args := []string{"-D", s.dataDir(), "-U", PostgresUser, "-E", "UTF8", "--locale=C", "--no-sync"}
	if s.config.password != "" {
		method = "scram-sha-256"
		file := filepath.Join(s.dir, "password")
		if err := os.WriteFile(file, []byte(s.config.password+"\n"), 0o644); err != nil {
			return err
		}
		args = append(args, "--pwfile", file)
	}
	more, err := s.mountDisks()
	if err != nil {
		return err
	}
	if _, err := s.postgresRun(binary, "initdb", append(append(args, "-A", method), more...)...); err != nil || !s.config.tls {
		return err
	}
	// The server refuses whoever does not speak TLS, or shows no certificate.
	rule := "hostssl all,replication all all " + method + " clientcert=verify-ca\n"
	return os.WriteFile(filepath.Join(s.dataDir(), "pg_hba.conf"), []byte(rule), 0o600)
}
