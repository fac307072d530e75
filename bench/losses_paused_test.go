//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// holderEnv makes this binary a process that holds locks: it names the library, a bar, and the servers.
	holderEnv  = "COORD_BENCH_HOLDER"
	heldKeys   = 20
	heldFor    = 2 * time.Second
	heldPrefix = "paused/"
)

func init() {
	if text := os.Getenv(holderEnv); text != "" {
		if err := holdAndWrite(text); err != nil {
			fmt.Fprintln(os.Stderr, "holder:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// holdAndWrite takes the locks, tells their tokens, and looks whether it holds them. When it is told to go on, it writes
// what that look allows: each write has the token.
func holdAndWrite(text string) error {
	name, addrs, _ := strings.Cut(text, "|")
	lib := majorityLibraries[slices.IndexFunc(majorityLibraries, func(l majorityLibrary) bool { return l.name == name })]
	c, err := lib.open(strings.Split(addrs, ","), heldFor)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var tokens []int64
	for i := range heldKeys {
		h, err := c.lock(ctx, fmt.Sprint(heldPrefix, i), heldFor)
		if err != nil {
			return err
		}
		if !h.valid() {
			return fmt.Errorf("lock %d is lost already", i)
		}
		tokens = append(tokens, h.token())
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode("holds"); err != nil {
		return err
	}
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil { // it is stopped here
		return err
	}
	return out.Encode(tokens)
}

// paused: a process holds locks, is stopped for longer than its leases, and writes when it goes on, because it had
// looked whether it holds. What has seen a greater token refuses that.
func (x *lossTrial) paused(t *testing.T) {
	c := x.begin(t, x.addrs, heldFor)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), holderEnv+"="+x.lib.name+"|"+strings.Join(x.addrs, ","))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(out)
	var said string
	if err := dec.Decode(&said); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var seen []int64 // the greatest token of a write to each
	for i := range heldKeys {
		h, err := c.lock(ctx, fmt.Sprint(heldPrefix, i), heldFor)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, h.token())
		if err := h.unlock(ctx); err != nil {
			t.Errorf("unlock: %v", err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(in); err != nil {
		t.Fatal(err)
	}
	var writes []int64
	if err := dec.Decode(&writes); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for i, token := range writes {
		if token == 0 || token > seen[i] {
			accepted++
		}
	}
	x.put("a holder is stopped for longer than its lease: late writes that are accepted", "%d of %d", accepted, len(writes))
	if x.isCoord() && accepted > 0 {
		t.Errorf("%d of %d late writes accepted: want none", accepted, len(writes))
	}
}
