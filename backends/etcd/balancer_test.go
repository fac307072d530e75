package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// One member of three hangs. Hardly any request goes to it: with round robin every fifth one did, and each cost its caller a second.
func TestNightlyOneMemberHangs(t *testing.T) {
	t.Parallel()
	c := testserver.EtcdCluster(t, testserver.WithFlags("--heartbeat-interval", "100", "--election-timeout", "1000"))
	cfg, _, err := parseURL(must[*url.URL](t)(url.Parse("etcd://" + strings.Join(c.Addrs(), ","))))
	if err != nil {
		t.Fatal(err)
	}
	var all, lost atomic.Int32
	victim := c.Followers(c.Leader())[0]
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			var to peer.Peer
			err := invoker(ctx, method, req, reply, cc, append(opts, grpc.Peer(&to))...)
			all.Add(1)
			if to.Addr != nil && to.Addr.String() == victim.Addr {
				lost.Add(1)
			}
			return err
		}))
	b := connectWith(t, cfg)
	client := must[*coord.Client](t)(coord.New(b))
	defer client.Close()

	victim.Pause()
	defer victim.Resume()
	all.Store(0)
	lost.Store(0)
	failed := 0
	for i := range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		lock, err := client.TryLock(ctx, fmt.Sprint("k", i))
		if err == nil {
			err = lock.Unlock(ctx)
		}
		cancel()
		if err != nil {
			failed++
		}
	}
	t.Logf("%d of 50 calls failed; %d of %d requests went to the member that hangs", failed, lost.Load(), all.Load())
	if lost.Load() > all.Load()/10 {
		t.Error("the member that hangs gets too many requests")
	}
}

// conn is a connection to a member of that name.
type conn struct {
	balancer.SubConn
	name string
}

// choice is a picker for three members, and what it has picked.
type choice struct {
	t *testing.T
	balancer.Picker
}

func newChoice(t *testing.T) choice {
	m := &membership{known: make(map[string]*member)}
	info := base.PickerBuildInfo{ReadySCs: make(map[balancer.SubConn]base.SubConnInfo)}
	for _, name := range []string{"a", "b", "c"} {
		info.ReadySCs[&conn{name: name}] = base.SubConnInfo{Address: resolver.Address{Addr: name}}
	}
	return choice{t, m.Build(info)}
}

const someRange = "/etcdserverpb.KV/Range"

// pick gives the name of the next member, and the function that takes in how the call has ended.
func (c choice) pick(ctx context.Context, method string) (name string, done func(balancer.DoneInfo)) {
	c.t.Helper()
	r := must[balancer.PickResult](c.t)(c.Pick(balancer.PickInfo{FullMethodName: method, Ctx: ctx}))
	return r.SubConn.(*conn).name, r.Done
}

// counts makes 60 requests, which are answered unless they go to the members of silent, and counts who gets them.
func (c choice) counts(silent string) map[string]int {
	got := make(map[string]int)
	for range 60 {
		name, done := c.pick(c.t.Context(), someRange)
		got[name]++
		if !strings.Contains(silent, name) {
			done(balancer.DoneInfo{BytesReceived: true})
		}
	}
	return got
}

// Members that answer get the requests in turn. One that does not gets none until retryAfter, and then one.
func TestPolicyPassesOverASilentMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChoice(t)
		c.counts("a")
		time.Sleep(silentAfter)
		for range 2 {
			if got := c.counts("a"); got["a"] != 0 || got["b"] != 30 || got["c"] != 30 {
				t.Errorf("while a is silent: %v, want 30 requests each for b and c", got)
			}
			time.Sleep(retryAfter)
			if got := c.counts("a"); got["a"] != 1 {
				t.Errorf("after %v: %v, want one request for a", retryAfter, got)
			}
		}
		time.Sleep(retryAfter)
		if got := c.counts(""); got["a"] != 20 {
			t.Errorf("a answers again: %v, want it to have its share", got)
		}
	})
}

// An answer that was late makes a member like the others at once.
func TestPolicyLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChoice(t)
		_, done := c.pick(t.Context(), someRange)
		time.Sleep(2 * silentAfter)
		if got := c.counts(""); len(got) != 2 {
			t.Errorf("while a request is late: %v, want requests for two members", got)
		}
		done(balancer.DoneInfo{BytesReceived: true})
		if got := c.counts(""); len(got) != 3 {
			t.Errorf("after its answer: %v, want requests for three members", got)
		}
	})
}

// An error is no answer: a member that is cut off from the others gives errors.
func TestPolicyErrorIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChoice(t)
		_, done := c.pick(t.Context(), someRange)
		time.Sleep(silentAfter)
		done(balancer.DoneInfo{BytesReceived: true, Err: errLost})
		if got := c.counts(""); len(got) != 2 {
			t.Errorf("after an error: %v, want requests for two members", got)
		}
	})
}

// If no member answers, each gets requests.
func TestPolicyNoneAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChoice(t)
		c.counts("abc")
		time.Sleep(silentAfter)
		if got := c.counts("abc"); got["a"] != 20 || got["b"] != 20 || got["c"] != 20 {
			t.Errorf("none answers: %v, want 20 requests each", got)
		}
	})
}

// A stream that was ended because its member is silent tells of that, and one that ends otherwise does not.
func TestPolicyStreams(t *testing.T) {
	for cause, members := range map[error]int{errSilent: 2, errors.New("other"): 3, nil: 3} {
		c := newChoice(t)
		ctx, end := context.WithCancelCause(t.Context())
		_, done := c.pick(ctx, "/etcdserverpb.Watch/Watch")
		end(cause)
		done(balancer.DoneInfo{})
		if got := c.counts(""); len(got) != members {
			t.Errorf("a stream was ended by %v: requests %v, want them for %d members", cause, got, members)
		}
	}
}

// A refusal is an answer.
func TestPolicyRefusalIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChoice(t)
		_, done := c.pick(t.Context(), someRange)
		time.Sleep(silentAfter)
		done(balancer.DoneInfo{BytesReceived: true, Err: status.Error(codes.PermissionDenied, "not for you")})
		if got := c.counts(""); len(got) != 3 {
			t.Errorf("after a refusal: %v, want requests for three members", got)
		}
	})
}

// A member that has connected again gets requests, whatever became of those before.
func TestPolicyOfAMemberThatIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &membership{known: make(map[string]*member)}
		a, b := &conn{name: "a"}, &conn{name: "b"}
		with := func(conns ...*conn) choice {
			info := base.PickerBuildInfo{ReadySCs: make(map[balancer.SubConn]base.SubConnInfo)}
			for _, sc := range conns {
				info.ReadySCs[sc] = base.SubConnInfo{Address: resolver.Address{Addr: sc.name}}
			}
			return choice{t, m.Build(info)}
		}
		with(a, b).counts("a")
		time.Sleep(silentAfter)
		if got := with(a, b).counts("a"); got["a"] != 0 {
			t.Errorf("while a is silent: %v, want none for a", got)
		}
		with(b)
		if got := with(a, b).counts(""); got["a"] != 30 {
			t.Errorf("after a has connected anew: %v, want 30 for a", got)
		}
	})
}
