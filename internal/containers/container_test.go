package containers

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

const childEnv = "COORD_CONTAINERS_CHILD"

// child is this test again in a process of its own.
func child(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), childEnv+"=1"), env...)
	return cmd
}

// Without an engine tests skip, or fail where containers are required.
func TestWithoutEngine(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		Memcached(t)
		return
	}
	for require, want := range map[string]string{"": "--- SKIP", "1": "--- FAIL"} {
		out, err := child(t, "DOCKER_HOST=unix:///nonexistent/docker.sock", "COORD_TEST_REQUIRE_CONTAINERS="+require).CombinedOutput()
		if (err != nil) != (require != "") || !strings.Contains(string(out), want) || !strings.Contains(string(out), "no Docker engine") {
			t.Errorf("COORD_TEST_REQUIRE_CONTAINERS=%q: %v\n%s", require, err, out)
		}
	}
}

// What a killed run has left, the next one removes; what a live one uses, it leaves alone.
func TestStaleContainers(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		os.Stdout.WriteString("\nID " + Memcached(t).id + "\n")
		select {}
	}
	cli, mine := needEngine(t), Memcached(t)
	cmd := child(t)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id := ""
	for lines := bufio.NewScanner(out); id == "" && lines.Scan(); {
		id, _ = strings.CutPrefix(lines.Text(), "ID ")
		if id == lines.Text() {
			id = ""
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if id == "" {
		t.Fatal("the child has started no container")
	}
	if err := removeStale(t.Context(), cli); err != nil {
		t.Fatal(err)
	}
	if _, err := cli.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}); !errdefs.IsNotFound(err) {
		t.Errorf("the container of the killed run: %v, want it gone", err)
	}
	if err := mine.kind.ready(mine.Addr); err != nil {
		t.Errorf("the container of this run: %v", err)
	}
}

// A container that is killed loses what its store keeps in memory, one that is started again has
// its address, and at the end of the test it is gone, whatever became of it.
func TestContainer(t *testing.T) {
	cli := needEngine(t)
	id := ""
	t.Run("use", func(t *testing.T) {
		c := Memcached(t)
		id = c.id
		before := c.Addr
		c.Pause()
		if err := c.kind.ready(c.Addr); err == nil {
			t.Error("a paused store answers")
		}
		c.Resume()
		if err := c.kind.ready(c.Addr); err != nil {
			t.Errorf("after a pause: %v", err)
		}
		c.Kill()
		if err := c.kind.ready(c.Addr); err == nil {
			t.Error("a killed store answers")
		}
		c.Restart()
		if err := converse(before, "set k 0 0 1\r\nv\r\n", "STORED"); err != nil {
			t.Errorf("after a restart: %v", err)
		}
		c.Wipe()
		if err := converse(before, "get k\r\n", "END"); err != nil {
			t.Errorf("after a wipe: %v", err)
		}
		if _, err := cli.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}); !errdefs.IsNotFound(err) {
			t.Errorf("the container before the wipe: %v, want it gone", err)
		}
		id = c.id
		c.Pause() // even so
	})
	if _, err := cli.ContainerInspect(context.Background(), id, client.ContainerInspectOptions{}); !errdefs.IsNotFound(err) {
		t.Errorf("after the test: %v, want the container gone", err)
	}
}
