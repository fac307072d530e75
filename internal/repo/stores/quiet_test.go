package stores

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// quietEnv makes this binary a program that uses the store of a URL, see [load].
const quietEnv = "COORD_STORES_QUIET"

// No client library prints lines of its own when its server is killed, comes back, hangs and goes on, while a program
// uses it. The program is a process, because a library may take os.Stderr before any test runs.
func TestNightlyDriversPrintNothing(t *testing.T) {
	this := func(s *testserver.Server) func() *testserver.Server { return func() *testserver.Server { return s } }
	// Each gives the URL, and the server on which the store depends at the time.
	for name, start := range map[string]func(testing.TB) (url string, server func() *testserver.Server){
		"redis": func(t testing.TB) (string, func() *testserver.Server) {
			s := testserver.Redis(t)
			return "redis://" + s.Addr, this(s)
		},
		"redis, sentinel": func(t testing.TB) (string, func() *testserver.Server) {
			c := testserver.RedisSentinel(t)
			return "redis+sentinel://" + strings.Join(c.Sentinels(), ",") + "/" + testserver.RedisSentinelMaster, c.Leader
		},
		"redis, cluster": func(t testing.TB) (string, func() *testserver.Server) {
			c := testserver.RedisCluster(t, 0)
			return "redis+cluster://" + strings.Join(c.Addrs(), ","), this(c.RedisMaster(c.RedisSlot("coord:{job}")))
		},
		"etcd": func(t testing.TB) (string, func() *testserver.Server) {
			s := testserver.Etcd(t, testserver.Durable())
			return "etcd://" + s.Addr, this(s)
		},
		"zookeeper": func(t testing.TB) (string, func() *testserver.Server) {
			s := testserver.ZooKeeper(t, testserver.Durable())
			return "zookeeper://" + s.Addr, this(s)
		},
		"memcached": func(t testing.TB) (string, func() *testserver.Server) {
			s := testserver.Memcached(t)
			return "memcached://" + s.Addr, this(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, server := start(t)
			p := startLoad(t, url)
			p.await(served)
			hurt := server()
			hurt.Kill()
			p.await(failed)
			hurt.Restart()
			p.await(served)
			hurt = server()
			hurt.Pause()
			p.await(failed)
			hurt.Resume()
			p.await(served)
			if printed := p.end(); printed != "" {
				t.Errorf("printed to standard error:\n%s", printed)
			}
		})
	}
}

// What the program is asked to wait for.
const (
	served = "served"
	failed = "failed"
)

// loadProcess is a process that runs [load].
type loadProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

func startLoad(t *testing.T, url string) *loadProcess {
	t.Helper()
	p := &loadProcess{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), quietEnv+"="+url)
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// await returns when the process has seen what.
func (p *loadProcess) await(what string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, what); err != nil {
		p.t.Fatal(err)
	}
	if line, err := p.out.ReadString('\n'); err != nil || line != what+"\n" {
		_ = p.cmd.Wait()
		p.t.Fatalf("await %s: %q, %v\n%s", what, line, err, &p.stderr)
	}
}

// end gives what the process has written to standard error.
func (p *loadProcess) end() string {
	p.t.Helper()
	_ = p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%v\n%s", err, &p.stderr)
	}
	return p.stderr.String()
}

const (
	loaders = 4
	// Results that are awaited. Not more failures: sentinels may replace a server before there are more.
	enough, fails = 4 * loaders, loaders
	within        = 300 * time.Millisecond
)

// load uses a store from several goroutines, which wait for one lock and share a limit, until in ends. For each line of
// in it waits for enough results of that kind, and answers with the line.
func load(url string, in io.Reader, out io.Writer) error {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	client, err := coord.Open(context.Background(), url)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	results := newTally()
	var wg sync.WaitGroup
	for range loaders {
		wg.Go(func() {
			for ctx.Err() == nil {
				results.add(useOnce(ctx, client))
			}
		})
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		results.await(lines.Text())
		fmt.Fprintln(out, lines.Text())
	}
	stop()
	wg.Wait()
	return client.Close()
}

// useOnce takes a permit under a lock that others want as well.
func useOnce(ctx context.Context, client *coord.Client) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return coord.Do(ctx, client, "job", func(ctx context.Context) error {
		_, err := client.Allow(ctx, "all", coord.PerSecond(1_000_000))
		return err
	}, coord.TTL(time.Second))
}

// tally counts results by kind.
type tally struct {
	mu      sync.Mutex
	changed *sync.Cond
	counts  map[string]int
}

func newTally() *tally {
	c := &tally{counts: map[string]int{}}
	c.changed = sync.NewCond(&c.mu)
	return c
}

func (c *tally) add(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind := served
	if err != nil {
		kind = failed
	}
	c.counts[kind]++
	c.changed.Broadcast()
}

// await returns when there were enough results of the kind since it was called.
func (c *tally) await(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	want := enough
	if kind == failed {
		want = fails
	}
	c.counts[kind] = 0
	for c.counts[kind] < want {
		c.changed.Wait()
	}
}
