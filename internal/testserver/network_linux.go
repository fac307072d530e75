package testserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// network is a switch with one namespace for each node, and a cable to the
// namespace of the tests:
//
//	tests 198.18.N.1 ── switch ── node0 198.18.N.10, node1 198.18.N.11 …
//
// The switch is in a namespace of its own, so that no firewall of the machine has a
// say. 198.18.0.0/15 is set aside for tests (RFC 2544).
type network struct {
	namespaces []string // of each node
	addresses  []string
}

var networks atomic.Int32

// newNetwork makes a network for n nodes. It is gone when the test ends.
func newNetwork(t testing.TB, n int) *network {
	t.Helper()
	if why := lacksNetwork(); why != "" {
		if requiresNetwork() {
			t.Fatalf("testserver: %s, and COORD_TEST_REQUIRE names network", why)
		}
		t.Skipf("testserver: no network of its own: %s", why)
	}
	removeStale()
	w := &network{}
	name := fmt.Sprintf("coord-%d-%d", os.Getpid(), networks.Add(1))
	t.Cleanup(func() {
		for _, ns := range append(slices.Clone(w.namespaces), name) {
			if err := ip("netns", "del", ns); err != nil {
				t.Errorf("testserver: %v", err)
			}
		}
	})
	if err := w.build(name, n); err != nil {
		t.Fatalf("testserver: network: %v", err)
	}
	return w
}

func lacksNetwork() string {
	if os.Getuid() != 0 {
		return "not root"
	}
	for _, b := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(b); err != nil {
			return b + " is not on PATH"
		}
	}
	return ""
}

// removeStale deletes what a killed run has left behind.
func removeStale() {
	out, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		return
	}
	for line := range strings.Lines(string(out)) {
		ns, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, ours := strings.CutPrefix(ns, "coord-")
		pid, _, _ := strings.Cut(rest, "-")
		if _, err := strconv.Atoi(pid); !ours || err != nil {
			continue
		}
		if _, err := os.Stat("/proc/" + pid); errors.Is(err, os.ErrNotExist) {
			_ = ip("netns", "del", ns)
		}
	}
}

// build makes the switch and plugs in the tests and n nodes.
func (w *network) build(name string, n int) error {
	if err := ip("netns", "add", name); err != nil {
		return err
	}
	if err := each(
		[]string{"-n", name, "link", "add", "switch", "type", "bridge"},
		[]string{"-n", name, "link", "set", "switch", "up"},
	); err != nil {
		return err
	}
	subnet, err := w.plugTests(name)
	if err != nil {
		return err
	}
	for i := range n {
		ns, port, addr := fmt.Sprintf("%s-%d", name, i), fmt.Sprint("port", i), fmt.Sprintf("%s.%d", subnet, 10+i)
		if err := ip("netns", "add", ns); err != nil {
			return err
		}
		w.namespaces, w.addresses = append(w.namespaces, ns), append(w.addresses, addr)
		if err := each(
			[]string{"-n", name, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", ns},
			[]string{"-n", name, "link", "set", port, "master", "switch", "up"},
			[]string{"-n", ns, "addr", "add", addr + "/24", "dev", "eth0"},
			[]string{"-n", ns, "link", "set", "eth0", "up"},
			[]string{"-n", ns, "link", "set", "lo", "up"},
		); err != nil {
			return err
		}
	}
	return nil
}

// plugTests connects the namespace of the tests, by a subnet that is free. The cable goes
// with the switch.
func (w *network) plugTests(name string) (subnet string, err error) {
	for try := range 200 {
		n := (os.Getpid() + 37*int(networks.Load()) + try) % 250
		cable := fmt.Sprintf("coord%d", n)
		if ip("link", "add", cable, "type", "veth", "peer", "name", "tests", "netns", name) != nil {
			continue // that number is in use
		}
		subnet = fmt.Sprintf("198.18.%d", n)
		return subnet, each(
			[]string{"-n", name, "link", "set", "tests", "master", "switch", "up"},
			[]string{"addr", "add", subnet + ".1/24", "dev", cable},
			[]string{"link", "set", cable, "up"},
		)
	}
	return "", errors.New("no free subnet")
}

// drop makes node a deaf to node b.
func (w *network) drop(a, b int) error {
	return iptables(w.namespaces[a], "-A", "INPUT", "-s", w.addresses[b], "-j", "DROP")
}

// dropAll makes node a deaf to all but itself.
func (w *network) dropAll(a int) error {
	return iptables(w.namespaces[a], "-A", "INPUT", "!", "-i", "lo", "-j", "DROP")
}

func (w *network) heal() error {
	var errs []error
	for _, ns := range w.namespaces {
		errs = append(errs, iptables(ns, "-F", "INPUT"))
	}
	return errors.Join(errs...)
}

func iptables(ns string, args ...string) error {
	return ip(append([]string{"netns", "exec", ns, "iptables", "-w"}, args...)...)
}

// each runs ip for each list of arguments, up to the first error.
func each(commands ...[]string) error {
	for _, args := range commands {
		if err := ip(args...); err != nil {
			return err
		}
	}
	return nil
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
