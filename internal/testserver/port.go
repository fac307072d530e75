package testserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Ports of servers are below those that the system gives to connections, and not among those of containers.
const (
	firstPort = 10_000
	ports     = 10_000
)

// reserved has the lock files of the ports that this process took. It keeps them until it ends: a server that was killed
// must find its port free, and no other test's server may answer there.
var reserved struct {
	sync.Mutex
	files []*os.File
}

// FreePort is a port for a process that is to be started again and again at one address. No other process of tests gets it
// while this one lives.
func FreePort(t testing.TB) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// freePort reserves a port on which nobody listens. No other process of tests gets it while this one lives.
func freePort() (string, error) {
	dir := filepath.Join(os.TempDir(), "coord-test-ports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	var errs []error
	for range 50 {
		port := strconv.Itoa(firstPort + rand.IntN(ports))
		err := reserve(dir, port)
		if err == nil {
			return port, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("no free port of 50: %w", errors.Join(errs...))
}

// reserve locks the file of a port, and looks that nobody listens on it.
func reserve(dir, port string) error {
	f, err := os.OpenFile(filepath.Join(dir, port), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = lockFile(f)
	if err == nil {
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			err = l.Close()
		}
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.files = append(reserved.files, f)
	return nil
}
