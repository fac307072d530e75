package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// readyWithin is how long a store may take to answer after its container was started.
const readyWithin = 60 * time.Second

// Container is a store in a container. Its methods end the test on errors, and are for one
// goroutine at a time.
type Container struct {
	// Store names the product: "redis".
	Store string
	// Addr is where clients reach it, the same for its whole life.
	Addr string

	t    testing.TB
	kind kind
	port string
	cli  *client.Client
	id   string // "" while there is none
}

// kind is what Container needs to know of one product.
type kind struct {
	store    string
	official string // the image, if nothing else is there
	port     string // in the container
	options  func(c *Container) []testcontainers.ContainerCustomizer
	ready    func(addr string) error // nil once the store answers
}

// start starts a container, which is gone when the test ends.
func start(t testing.TB, k kind) *Container {
	t.Helper()
	c := &Container{Store: k.store, t: t, kind: k, cli: needEngine(t)}
	t.Cleanup(c.end)
	var err error
	for range 3 { // somebody else may take the port meanwhile
		if c.port, err = freePort(); err != nil {
			break
		}
		c.Addr = net.JoinHostPort("127.0.0.1", c.port)
		if err = c.create(); err == nil {
			return c
		}
		err = errors.Join(err, c.remove())
	}
	t.Fatalf("containers: start %s of %s: %v", k.store, c.image(), err)
	return nil
}

// image is what the environment names, what scripts/images has made, or the official one.
func (c *Container) image() string {
	if image := os.Getenv("COORD_TEST_" + strings.ToUpper(c.Store) + "_IMAGE"); image != "" {
		return image
	}
	ctx, cancel := context.WithTimeout(context.Background(), reach)
	defer cancel()
	local := "coord-test/" + c.Store + ":local"
	if _, err := c.cli.ImageInspect(ctx, local); err == nil {
		return local
	}
	return c.kind.official
}

// create makes the container, starts it and waits until the store answers.
func (c *Container) create() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*reach) // with a pull
	defer cancel()
	inside, err := network.ParsePort(c.kind.port + "/tcp")
	if err != nil {
		return err
	}
	image := c.image()
	options := append(c.kind.options(c),
		testcontainers.WithLabels(labels()),
		testcontainers.WithExposedPorts(inside.String()),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
			h.PortBindings = network.PortMap{inside: {{HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), HostPort: c.port}}}
		}))
	made, err := testcontainers.Run(ctx, image, options...)
	if made != nil {
		c.id = made.GetContainerID()
	}
	if err != nil {
		return err
	}
	c.t.Logf("containers: a container of %s", image)
	return c.awaitReady()
}

// freePort looks for a port below those that the system gives out by itself, so that nobody gets
// it by chance while the container is down.
func freePort() (string, error) {
	var last error
	for range 50 {
		port := strconv.Itoa(20_000 + rand.IntN(10_000))
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return "", last
}

// awaitReady polls until the store answers. A port that takes connections says nothing: Docker's
// proxy does before the store.
func (c *Container) awaitReady() error {
	deadline := time.Now().Add(readyWithin)
	for {
		err := c.kind.ready(c.Addr)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %v: %w", readyWithin, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// do makes one request to the engine about the container.
func (c *Container) do(what string, request func(ctx context.Context) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), reach)
	defer cancel()
	if err := request(ctx); err != nil {
		c.t.Fatalf("containers: %s %s: %v", what, c.Store, err)
	}
}

// Kill ends the store with SIGKILL and waits until it is gone.
func (c *Container) Kill() {
	c.t.Helper()
	c.do("kill", func(ctx context.Context) error {
		if _, err := c.cli.ContainerKill(ctx, c.id, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
			return err
		}
		for {
			now, err := c.cli.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
			if err != nil || !now.Container.State.Running {
				return err
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// Restart starts the container again after Kill, with what its store has kept.
func (c *Container) Restart() {
	c.t.Helper()
	c.do("restart", func(ctx context.Context) error {
		if _, err := c.cli.ContainerStart(ctx, c.id, client.ContainerStartOptions{}); err != nil {
			return err
		}
		return c.awaitReady()
	})
}

// Wipe puts a fresh container in its place: everything is lost at once.
func (c *Container) Wipe() {
	c.t.Helper()
	c.do("wipe", func(context.Context) error { return errors.Join(c.remove(), c.create()) })
}

// Pause freezes the container: connections stay open, nothing answers.
func (c *Container) Pause() {
	c.t.Helper()
	c.do("pause", func(ctx context.Context) error {
		_, err := c.cli.ContainerPause(ctx, c.id, client.ContainerPauseOptions{})
		return err
	})
}

// Resume lets it go on.
func (c *Container) Resume() {
	c.t.Helper()
	c.do("resume", func(ctx context.Context) error {
		_, err := c.cli.ContainerUnpause(ctx, c.id, client.ContainerUnpauseOptions{})
		return err
	})
}

// remove removes the container, in whatever state it is.
func (c *Container) remove() error {
	if c.id == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), reach)
	defer cancel()
	_, err := c.cli.ContainerRemove(ctx, c.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err == nil {
		c.id = ""
	}
	return err
}

// end is the cleanup: the log is shown if the test failed, and the container goes.
func (c *Container) end() {
	if c.t.Failed() && c.id != "" {
		c.t.Logf("log of %s:\n%s", c.Store, c.log())
	}
	if err := c.remove(); err != nil {
		c.t.Errorf("containers: remove %s: %v", c.Store, err)
	}
}

// log is the end of the store's output.
func (c *Container) log() string {
	ctx, cancel := context.WithTimeout(context.Background(), reach)
	defer cancel()
	stream, err := c.cli.ContainerLogs(ctx, c.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "50"})
	if err != nil {
		return err.Error()
	}
	defer stream.Close()
	var text strings.Builder
	if _, err := stdcopy.StdCopy(&text, &text, stream); err != nil && !errors.Is(err, io.EOF) {
		return text.String() + err.Error()
	}
	return text.String()
}
