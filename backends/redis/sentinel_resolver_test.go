package redis

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/call"
	"github.com/coordgo/coord/internal/testserver"
)

func TestParseAnswer(t *testing.T) {
	about := map[string]string{"config-epoch": "7", "num-other-sentinels": "2", "ip": "10.0.0.1", "port": "1"}
	for name, tt := range map[string]struct {
		about map[string]string
		where []string
		want  sentinelAnswer // without its error
		ok    bool
	}{
		"IPv4":       {about, []string{"10.0.0.2", "6379"}, sentinelAnswer{view: view{"10.0.0.2:6379", 7}, others: 2}, true},
		"IPv6":       {about, []string{"::1", "6379"}, sentinelAnswer{view: view{"[::1]:6379", 7}, others: 2}, true},
		"a name":     {about, []string{"redis-1", "6379"}, sentinelAnswer{view: view{"redis-1:6379", 7}, others: 2}, true},
		"no address": {about: about},
		"no epoch":   {about: map[string]string{"num-other-sentinels": "2"}, where: []string{"10.0.0.2", "6379"}},
		"no others":  {about: map[string]string{"config-epoch": "7"}, where: []string{"10.0.0.2", "6379"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := parseAnswer(tt.about, tt.where)
			if tt.ok != (got.err == nil) || tt.ok && got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// resolverAt gives a resolver without sentinels that has elected a master.
func resolverAt(t *testing.T, v view) *resolver {
	t.Helper()
	r := &resolver{
		options: &redis.UniversalOptions{DialTimeout: hung, ReadTimeout: hung, WriteTimeout: hung, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1},
		log:     slog.New(slog.DiscardHandler), asap: make(chan struct{}, 1), calls: call.New(call.Options{ErrClosing: errClosedResolver}),
	}
	t.Cleanup(r.close)
	r.elect(v)
	return r
}

// clientOf gives the client of a resolver, closed with the test.
func clientOf(t *testing.T, r *resolver) *redis.Client {
	t.Helper()
	client := r.client()
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// doubted reports whether r waits for a look before anyone connects, and ends that.
func doubted(r *resolver) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	doubt := r.doubt != nil
	r.doubt = nil
	return doubt
}

// TestSentinelsElectAReplica: a server that the sentinels elected and that is a replica gets no command.
func TestSentinelsElectAReplica(t *testing.T) {
	t.Parallel()
	master, replica := testserver.Redis(t, silently), testserver.Redis(t, silently)
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := direct(t, replica).ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	r := resolverAt(t, view{addr: replica.Addr})
	if err := classify(clientOf(t, r).Ping(t.Context()).Err()); !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), "is a replica") {
		t.Errorf("%v, want ErrNotSent and why", err)
	}
	if !doubted(r) {
		t.Error("no look is requested")
	}
}

// TestSentinelsMasterBecomesReplica: a reply that says so makes the resolver look again, that of one command and
// that of a pipeline.
func TestSentinelsMasterBecomesReplica(t *testing.T) {
	t.Parallel()
	first, second := testserver.Redis(t, silently), testserver.Redis(t, silently)
	host, port, err := net.SplitHostPort(second.Addr)
	if err != nil {
		t.Fatal(err)
	}
	r := resolverAt(t, view{addr: first.Addr})
	client := clientOf(t, r)
	pipeline := func() error {
		_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Ping(t.Context()) // a replica answers it
			return p.Set(t.Context(), "k", "v", 0).Err()
		})
		return err
	}
	if err := errors.Join(client.Set(t.Context(), "k", "v", 0).Err(), pipeline()); err != nil {
		t.Fatal(err)
	}
	if doubted(r) {
		t.Error("in doubt of a master that answers")
	}
	onFirst := direct(t, first)
	if err := onFirst.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	if err := pipeline(); !redis.IsReadOnlyError(err) {
		t.Fatalf("%v, want READONLY", err)
	}
	if !doubted(r) {
		t.Error("no look is requested after a pipeline")
	}
	if err := client.Set(t.Context(), "k", "w", 0).Err(); !redis.IsReadOnlyError(err) {
		t.Fatalf("%v, want READONLY", err)
	}
	if !doubted(r) {
		t.Error("no look is requested after a command")
	}
}

// TestSentinelsSwitch: when another master is elected, a call that waits for the old one ends, and
// so do the connections that are idle.
func TestSentinelsSwitch(t *testing.T) {
	t.Parallel()
	first, second := testserver.Redis(t, silently), testserver.Redis(t, silently)
	r := resolverAt(t, view{addr: first.Addr})
	client := clientOf(t, r)
	if err := client.Set(t.Context(), "where", "first", 0).Err(); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- client.BLPop(t.Context(), hung, "nothing").Err() }()
	onFirst := direct(t, first)
	await(t, "a call that waits", func() bool {
		return strings.Contains(must[string](t)(onFirst.ClientList(t.Context()).Result()), "cmd=blpop")
	})
	r.elect(view{addr: second.Addr, epoch: 1})
	if err := <-result; !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, want net.ErrClosed", err)
	}
	if err := client.Get(t.Context(), "where").Err(); !errors.Is(err, redis.Nil) {
		// A connection that was closed while it was idle may show that in the call that takes it.
		if err = client.Get(t.Context(), "where").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("%v, want nothing: it is another server", err)
		}
	}
	if doubted(r) {
		t.Error("in doubt of the new master because the connections to the old one were closed")
	}
}

// TestSentinelsEpochForgotten: sentinels that know a lower epoch are behind, unless none names the higher one for long.
func TestSentinelsEpochForgotten(t *testing.T) {
	r := resolverAt(t, view{addr: "127.0.0.1:1", epoch: 5})
	if got := r.known(); got.epoch != 5 {
		t.Errorf("known: %+v", got)
	}
	r.named = time.Now().Add(-2 * rememberEpoch)
	if got := r.known(); got.epoch != 0 || got.addr != "127.0.0.1:1" {
		t.Errorf("known after long: %+v", got)
	}
	r.heard(sentinelAnswer{view: view{addr: "127.0.0.1:1", epoch: 4}})
	if got := r.known(); got.epoch != 0 {
		t.Errorf("known after a lower one: %+v", got)
	}
	r.heard(sentinelAnswer{view: view{addr: "127.0.0.1:1", epoch: 5}})
	if got := r.known(); got.epoch != 5 {
		t.Errorf("known again: %+v", got)
	}
}

// TestSentinelsThatHang: a sentinel that takes a connection and does not answer is silent, whichever of the two limits
// of a question, that of the connection or that of the whole, ends it.
func TestSentinelsThatHang(t *testing.T) {
	silent := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = silent.Close() })
	r := resolverAt(t, view{})
	for range 50 {
		r.peers = append(r.peers, &peer{addr: silent.Addr().String()})
	}
	for _, err := range r.poll().errs {
		if !errors.Is(err, errSilent) || !timedOut(err) {
			t.Errorf("%v is not the error of a silent sentinel", err)
		}
	}
}

// TestNightlySentinelsClose: Close leaves no goroutine: while all is well, while the master and two sentinels are silent,
// and while they are gone.
func TestNightlySentinelsClose(t *testing.T) {
	c := testserver.RedisSentinel(t, silently)
	all := func(do func(*testserver.Server)) {
		for _, s := range []*testserver.Server{c.Nodes[0], c.Nodes[3], c.Nodes[4]} {
			do(s)
		}
	}
	check := func(meanwhile func(), after func()) {
		t.Helper()
		before := goleak.IgnoreCurrent()
		b := must[driver.Backend](t)(openURL(t, sentinelURL(c)))
		meanwhile()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_ = b.Ping(ctx)
		cancel()
		if err := errors.Join(b.Close(), goleak.Find(before)); err != nil {
			t.Error(err)
		}
		after()
	}
	check(func() {}, func() {})
	check(func() { all((*testserver.Server).Pause) }, func() { all((*testserver.Server).Resume) })
	check(func() { all((*testserver.Server).Kill) }, func() {})
}

// TestNightlyFailoverClientOfGoRedis: New works over such a client, and says what it lacks.
func TestNightlyFailoverClientOfGoRedis(t *testing.T) {
	t.Parallel()
	c := testserver.RedisSentinel(t, silently)
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: testserver.RedisSentinelMaster, SentinelAddrs: c.Sentinels(), ContextTimeoutEnabled: true,
		ReadTimeout: hung, WriteTimeout: hung,
	})
	log, text := textLogger()
	b, err := New(client, WithLogger(log))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(b.Info().Server, " sentinel") || !strings.Contains(text.String(), "redis+sentinel://") {
		t.Errorf("%+v, logged %q", b.Info(), text)
	}
	if err := errors.Join(b.Close(), client.Close()); err != nil {
		t.Error(err)
	}
}
