package redis

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// peer is one of the sentinels that the URL names.
type peer struct {
	addr   string
	mu     sync.Mutex    // held by the one who asks
	client *redis.Client // nil: the last one failed, or nobody has asked yet
}

// sentinelAnswer is what a sentinel said, or why it said nothing.
type sentinelAnswer struct {
	peer   *peer
	view   view
	others int // how many other sentinels it knows
	err    error
}

// errSilent is the error of a sentinel that did not answer in time.
var errSilent = fmt.Errorf("no answer within %v: %w", askWithin, os.ErrDeadlineExceeded)

// ask asks one sentinel. It takes askWithin at most, also if the question before is not answered yet.
func (r *resolver) ask(p *peer) sentinelAnswer {
	ctx, cancel := context.WithTimeout(r.calls.Life(), askWithin)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return sentinelAnswer{peer: p, err: errSilent}
	}
	if p.client == nil {
		p.client = r.sentinelClient(p)
	}
	client := p.client
	// A deadline does not bound the handshake of a new connection.
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	a := question(ctx, client, r.options.MasterName)
	a.peer = p
	if !stop() || timedOut(a.err) {
		a.err = errSilent // whatever the closed connection gave, and if its own limit came first
	}
	if a.err != nil {
		_ = client.Close()
		p.client = nil
	}
	return a
}

// question sends both questions at once. During a failover, the sentinel that leads it says in the
// second answer already where the new master is, and in the first that the epoch is new:
// asked the other way round, an old address could come with a new epoch.
func question(ctx context.Context, client *redis.Client, name string) (a sentinelAnswer) {
	about := redis.NewMapStringStringCmd(ctx, "sentinel", "master", name)
	where := redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", name)
	pipe := client.Pipeline()
	_ = pipe.Process(ctx, about) // is put on a list
	_ = pipe.Process(ctx, where)
	if _, a.err = pipe.Exec(ctx); a.err != nil {
		return a
	}
	return parseAnswer(about.Val(), where.Val())
}

func parseAnswer(about map[string]string, where []string) (a sentinelAnswer) {
	if len(where) != 2 {
		a.err = fmt.Errorf("address of the master: %q", where)
		return a
	}
	a.view.addr = net.JoinHostPort(where[0], where[1])
	if a.view.epoch, a.err = strconv.ParseInt(about["config-epoch"], 10, 64); a.err != nil {
		return a
	}
	a.others, a.err = strconv.Atoi(about["num-other-sentinels"])
	return a
}

// follow requests a look whenever a sentinel tells of a failover, until the resolver is closed.
func (r *resolver) follow(p *peer) {
	for !r.calls.Closed() {
		client := r.sentinelClient(p)
		// What the leader of a failover says first, and what all say.
		pubsub := client.Subscribe(r.calls.Life(), "+promoted-slave", "+switch-master")
		stop := context.AfterFunc(r.calls.Life(), func() { _ = pubsub.Close() })
		r.receive(pubsub)
		stop()
		_ = pubsub.Close()
		_ = client.Close()
		_ = r.calls.Pause(r.calls.Life(), lookEvery) // the looks go on meanwhile
	}
}

// receive returns when the connection fails or is silent for two intervals, after a PING.
func (r *resolver) receive(pubsub *redis.PubSub) {
	for asked := false; ; {
		said, err := pubsub.ReceiveTimeout(r.calls.Life(), lookEvery)
		switch said.(type) {
		case *redis.Subscription, *redis.Message: // something may have happened before it
			r.request()
		}
		switch {
		case err == nil:
			asked = false
		case timedOut(err) && !asked:
			asked = true
			_ = pubsub.Ping(r.calls.Life())
		default:
			return
		}
	}
}

// sentinelClient makes a client for a sentinel. Its connections end with the resolver.
func (r *resolver) sentinelClient(p *peer) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: p.addr, Username: r.options.SentinelUsername, Password: r.options.SentinelPassword, ClientName: r.options.ClientName,
		Dialer: quiet(func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := r.connect(ctx, r.calls.Life(), network, addr)
			if err != nil {
				return nil, err
			}
			return guard(r.calls.Life(), nc, func() {}), nil
		}),
		DialTimeout: askWithin, ReadTimeout: askWithin, WriteTimeout: askWithin, ContextTimeoutEnabled: true,
		MaxRetries: -1, DialerRetries: 1, PoolSize: 2, PipelinePoolSize: -1, DisableIdentity: true, Protocol: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}
