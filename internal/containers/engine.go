package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// The labels of our containers: what they are for, and which process of which machine started
// them.
const (
	labelUse  = "coord.test"
	labelHost = "coord.test.host"
	labelPID  = "coord.test.pid"
)

// reach is how long one request to the engine may take. Pulling an image has its own time.
const reach = time.Minute

// engine is the Docker engine of this machine; nil with a reason if none answers.
var engine = sync.OnceValues(func() (*client.Client, error) {
	cli, err := client.New(client.FromEnv)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := cli.Ping(ctx, client.PingOptions{}); err != nil {
		return nil, err
	}
	// Testcontainers reads these when it is first used. Ryuk removes what a killed test leaves
	// behind, but its image may not be here, nor to be had.
	if _, set := os.LookupEnv("TESTCONTAINERS_RYUK_DISABLED"); !set {
		ryuk, err := cli.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("reference", "testcontainers/ryuk")})
		if err != nil {
			return nil, err
		}
		if len(ryuk.Items) == 0 {
			if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
				return nil, err
			}
		}
	}
	if _, set := os.LookupEnv("TESTCONTAINERS_HOST_OVERRIDE"); !set {
		if err := os.Setenv("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1"); err != nil {
			return nil, err
		}
	}
	return cli, removeStale(ctx, cli)
})

// needEngine gives the engine, or ends the test.
func needEngine(t testing.TB) *client.Client {
	t.Helper()
	cli, err := engine()
	if err == nil {
		return cli
	}
	if os.Getenv("COORD_TEST_REQUIRE_CONTAINERS") == "1" {
		t.Fatalf("no Docker engine, and COORD_TEST_REQUIRE_CONTAINERS is 1: %v", err)
	}
	t.Skipf("no Docker engine: %v", err)
	return nil
}

func labels() map[string]string {
	host, _ := os.Hostname() // "" is as good a name
	return map[string]string{labelUse: "conformance", labelHost: host, labelPID: strconv.Itoa(os.Getpid())}
}

// removeStale removes what killed runs on this machine have left.
func removeStale(ctx context.Context, cli *client.Client) error {
	ours := labels()
	found, err := cli.ContainerList(ctx, client.ContainerListOptions{
		All:     true,
		Filters: make(client.Filters).Add("label", labelUse+"="+ours[labelUse], labelHost+"="+ours[labelHost]),
	})
	if err != nil {
		return err
	}
	for _, c := range found.Items {
		pid, err := strconv.Atoi(c.Labels[labelPID])
		if err != nil || alive(pid) {
			continue
		}
		if _, err := cli.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			return fmt.Errorf("remove the container %.12s of a run that is over: %w", c.ID, err)
		}
	}
	return nil
}

// alive reports whether there is such a process, as far as can be told.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
