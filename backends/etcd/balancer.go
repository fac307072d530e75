package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// policyName is the name of the load-balancing policy in gRPC's registry.
const policyName = "coord_etcd_answering"

const (
	// silentAfter is how long a member may leave a request unanswered before requests go to other members.
	silentAfter = answerWithin / 2
	// retryAfter is when a silent member gets a request again. With pingAfter and pingWithin, gRPC closes the connection to
	// a member that hangs soon after that.
	retryAfter = 10 * time.Second
)

func init() { balancer.Register(policy{}) }

// DialOptions gives the options with which a client of etcd passes over members that do not answer. [Open] uses them. A client
// that is given to [New] needs them from the application:
//
//	cfg.DialOptions = append(cfg.DialOptions, etcd.DialOptions()...)
//	client, err := clientv3.New(cfg)
//
// Without them the client library sends each request to the next member, also to one that hangs. With them a member that has left
// a request unanswered for a quarter of a second gets no other one for ten seconds, or until it answers. If no member answers,
// each gets requests in turn.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDisableServiceConfig(), // of the client library, which asks for round_robin
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"` + policyName + `": {}}]}`),
	}
}

// policy is gRPC's round robin, but over the members that answer. gRPC's own outlier detection would do, but it cannot be had
// without its xds, which brings the protocols of Envoy.
type policy struct{}

func (policy) Name() string { return policyName }

func (policy) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	m := &membership{known: make(map[string]*member)}
	return addressed{base.NewBalancerBuilder(policyName, m, base.Config{}).Build(cc, opts)}
}

// addressed gives gRPC's base balancer the addresses of the endpoints. The client library gives endpoints only.
type addressed struct{ balancer.Balancer }

func (a addressed) UpdateClientConnState(s balancer.ClientConnState) error {
	s.ResolverState.Addresses = nil
	for _, e := range s.ResolverState.Endpoints {
		s.ResolverState.Addresses = append(s.ResolverState.Addresses, e.Addresses...)
	}
	return a.Balancer.UpdateClientConnState(s)
}

// membership is what one connection of the client library knows of the members of the cluster.
type membership struct {
	mu    sync.Mutex
	known map[string]*member // by address
	turn  int
}

// member is one member of the cluster. membership.mu guards the times.
type member struct {
	all   *membership
	asked time.Time // when it got its last request
	since time.Time // when it got the first request since its last answer; zero: none
}

// silent reports whether requests should go to another member.
func (m *member) silent(now time.Time) bool {
	return !m.since.IsZero() && now.Sub(m.since) >= silentAfter && now.Sub(m.asked) < retryAfter
}

// answered notes the answer to a request. A refusal is one. An error of a member that is cut off from the others, or of
// the caller's context, is none.
func (m *member) answered(info balancer.DoneInfo) {
	if !info.BytesReceived {
		return
	}
	switch status.Code(info.Err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unknown:
		return
	}
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	m.since = time.Time{}
}

// over notes the end of a stream, or of a request for a lease. If it was not answered, this package has ended it with errSilent.
func (m *member) over(ctx context.Context) {
	if !errors.Is(context.Cause(ctx), errSilent) {
		return
	}
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	m.asked = time.Now()
	if m.since.IsZero() {
		m.since = m.asked.Add(-silentAfter)
	}
}

// Build implements base.PickerBuilder: it takes the members that are connected.
func (a *membership) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &picker{membership: a}
	before := a.known
	a.known = make(map[string]*member) // one that connects again begins again
	for conn, of := range info.ReadySCs {
		m := before[of.Address.Addr]
		if m == nil {
			m = &member{all: a}
		}
		a.known[of.Address.Addr] = m
		p.ready = append(p.ready, connected{member: m, conn: conn, done: m.answered})
	}
	return p
}

// picker chooses among the members that are connected.
type picker struct {
	*membership
	ready []connected
}

// connected is a member and the connection to it.
type connected struct {
	*member
	conn balancer.SubConn
	done func(balancer.DoneInfo) // member.answered, made once
}

// Pick implements balancer.Picker. Streams last, so that only the requests for keys are timed.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	var m connected
	for range len(p.ready) + 1 { // one more, so that silent members get requests in turn, too
		p.turn++
		if m = p.ready[p.turn%len(p.ready)]; !m.silent(now) {
			break
		}
	}
	if !strings.HasPrefix(info.FullMethodName, "/etcdserverpb.KV/") {
		return balancer.PickResult{SubConn: m.conn, Done: func(balancer.DoneInfo) { m.over(info.Ctx) }}, nil
	}
	m.asked = now
	if m.since.IsZero() {
		m.since = now
	}
	return balancer.PickResult{SubConn: m.conn, Done: m.done}, nil
}
