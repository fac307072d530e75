package zookeeper

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/members"
	"github.com/coordgo/coord/internal/testserver"
)

// clusterSession is long enough for an election.
const clusterSession = 3 * time.Second

// nodeOf is the server that b is connected to.
func nodeOf(t testing.TB, c *testserver.Cluster, b *backend) *testserver.Server {
	t.Helper()
	for _, s := range c.Nodes {
		if s.Addr == b.conn.Server() {
			return s
		}
	}
	t.Fatalf("connected to %s, none of %v", b.conn.Server(), c.Addrs())
	return nil
}

// The cases that tell an ensemble from a single server: those about exclusion, tokens,
// renewal, ownership, waiting, and the counting of limits.
func TestConformanceOfAnEnsemble(t *testing.T) {
	t.Parallel() // it mostly waits
	c := testserver.ZooKeeperCluster(t)
	only := map[string]bool{}
	for _, id := range []string{
		"CORE-01", "CORE-02", "LOCK-01", "LOCK-02", "LOCK-03", "LOCK-04", "LOCK-05", "LOCK-10", "LOCK-12", "LOCK-13", "LOCK-14", "LOCK-16", "LOCK-18", "LOCK-20", "LOCK-22", "LOCK-24",
		"LOCK-30", "LOCK-31", "LOCK-32", "LOCK-33", "LOCK-36", "LOCK-40", "LOCK-41", "LOCK-43", "LOCK-45", "LOCK-46", "LOCK-50", "LOCK-51", "LOCK-52", "LOCK-53", "LOCK-72", "LOCK-95", "LOCK-96",
		"LIMIT-01", "LIMIT-02", "LIMIT-05", "LIMIT-08", "LIMIT-10", "LIMIT-20", "LIMIT-21", "LIMIT-30", "LIMIT-32", "LIMIT-35", "LIMIT-37", "LIMIT-40", "LIMIT-58",
		"LOCK-29", "LIMIT-15", // which need several servers

	} {
		only[id] = true
	}
	h := harness(c.Nodes[0])
	h.Faults, h.WorkerURL = &conformance.Faults{Link: h.Faults.Link, Skew: h.Faults.Skew}, conformanceURL(strings.Join(c.Addrs(), ","))
	h.Faults.Failover = func(tb conformance.TB) {
		gone := c.Leader()
		gone.Kill()
		tb.Cleanup(gone.Restart)
		c.Leader()
	}
	h.Open = func(tb conformance.TB) driver.Backend { return openIn(tb, h.WorkerURL) } // in the root that a link opens, too
	s := &conformance.Suite{Harness: h, Only: func(c conformance.Case) bool { return only[c.ID] }}
	report, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		switch r.Outcome {
		case conformance.Fail:
			t.Error(s.Explain(r))
		case conformance.Unproven:
			t.Errorf("%s is unproven: %s", r.ID, r.Reason)
		}
	}
	if n := report.Count(conformance.Pass); n < 44 {
		t.Errorf("%d cases passed", n)
	}
	t.Logf("%d passed, %d failed, %d unsupported, %d unproven", report.Count(conformance.Pass), report.Count(conformance.Fail), report.Count(conformance.Unsupported), report.Count(conformance.Unproven))
}

// The cases in which a member of an ensemble fails.
func TestConformanceOfMembers(t *testing.T) {
	t.Parallel() // it mostly waits
	// A server that does not answer is left after a sixth of the session. The rest is for finding another one.
	const bound = 2 * time.Second
	c := testserver.ZooKeeperCluster(t, testserver.WithNetworkIfAny(), testserver.WithConfig("syncLimit=10"))
	open := func(tb conformance.TB) driver.Backend { return openIn(tb, urlWithHosts(t, c.Addrs(), 3*bound)) }
	m := members.OfQuorumAndLeader(func() *testserver.Cluster { return c }, conformance.Members{
		Open: open, Bound: bound,
		Empty: func(_ conformance.TB, i int) func() {
			c.Nodes[i].Wipe()
			return nil
		},
	})
	s := &conformance.Suite{Harness: conformance.Harness{Open: open, Claims: Claims, Members: m}, Only: members.Fail}
	s.Test(t)
}

// An ensemble serves.
func TestEnsemble(t *testing.T) {
	t.Parallel() // it mostly waits
	c := testserver.ZooKeeperCluster(t)
	b := connect(t, urlWithHosts(t, c.Addrs(), calmSession))
	if b.alone.Load() {
		t.Error("three servers are taken for one")
	}
	r := request("a", time.Minute)
	g := must[driver.Grant](t)(b.TryLock(t.Context(), "k", r))
	// Three quarters of the session are certain when it has just begun, and half of it later.
	if lease := b.lease(); g.TTL > lease || g.TTL < calmSession/2 {
		t.Errorf("a lease of %v, want %v at most", g.TTL, lease)
	}
	must[driver.Grant](t)(b.Renew(t.Context(), "k", r))
	if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
		t.Error(err)
	}
	must[driver.TakenOne](t)(b.TakeOne(t.Context(), "l", limitOf(t, "3/1h"), driver.Ask{Min: 1, N: 1}))
}

// A create that stalls on its way has no effect once its client has another connection: the server has closed the
// earlier one, or the leader knows that the session has moved. So a client that looks for the node looks once.
func TestStalledCreateOfAnEarlierConnection(t *testing.T) {
	t.Parallel()
	c := testserver.ZooKeeperCluster(t)
	leader := c.Leader()
	follower := c.Followers(leader)[0]
	beside := connect(t, urlWithHosts(t, c.Addrs(), calmSession))
	for what, tc := range map[string]struct{ stalls, next *testserver.Server }{
		"the same server":       {follower, nil},
		"follower, then leader": {follower, leader},
		"leader, then follower": {leader, follower},
	} {
		p := newTap(t, tc.stalls.Addr)
		hosts := []string{p.addr()}
		if tc.next != nil {
			hosts = append(hosts, tc.next.Addr)
		}
		b := connect(t, urlWithHosts(t, hosts, calmSession))
		for b.conn.Server() != p.addr() {
			b.wire.cut()
			eventually(t, "another connection", func() bool { return b.Ping(t.Context()) == nil })
		}
		isFree(t, b, "k")
		session := b.conn.SessionID()
		stalled, r := p.once(opMulti, hold), request("a", time.Minute)
		granted := make(chan error, 1)
		go func() {
			_, err := b.TryLock(t.Context(), "k", r)
			granted <- err
		}()
		<-stalled
		b.wire.cut()
		if err := <-granted; err != nil || b.conn.SessionID() != session {
			t.Errorf("%s: %v, session %x, then %x", what, err, session, b.conn.SessionID())
		}
		p.release()
		eventually(t, "the server to close the earlier connection", func() bool {
			most := 0
			if b.conn.Server() == p.addr() { // as it may be with another server, too, if that was slow
				most = 2 // a connection has two ends
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.conns) <= most
		})
		if err := beside.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		if names := children(t, beside.conn, b, "k"); len(names) != 1 {
			t.Errorf("%s: nodes %v, want one", what, names)
		}
		if err := b.Unlock(t.Context(), "k", r.ID); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		isFree(t, beside, "k")
	}
}

// A hold, a place in the queue and a debt outlive the server that the client is connected to, and the
// leader; tokens rise over the election.
func TestNightlyHoldsOutliveServers(t *testing.T) {
	c := testserver.ZooKeeperCluster(t)
	const patient = 30 * time.Second // much longer than an election
	b := connect(t, urlWithHosts(t, c.Addrs(), patient))
	if b.alone.Load() || b.lease() != patient*3/4 {
		t.Fatalf("alone %v, lease %v: want three quarters of the session", b.alone.Load(), b.lease())
	}
	holder := must[*coord.Client](t)(coord.New(b))
	l := must[*coord.Lock](t)(holder.Lock(t.Context(), "k"))
	limit := limitOf(t, "10/1h")
	if r, err := holder.AllowN(t.Context(), "l", limit, 10); err != nil || !r.Allowed {
		t.Fatalf("%+v, %v", r, err)
	}
	rival := connect(t, urlWithHosts(t, c.Addrs(), patient))
	waiter := request("b", time.Minute)
	granted := make(chan driver.Grant, 1)
	waits := make(chan struct{})
	go func() {
		g, err := rival.Lock(t.Context(), "k", waiter, func() { close(waits) })
		if err != nil {
			t.Error(err)
		}
		granted <- g
	}()
	<-waits
	for what, victim := range map[string]func() *testserver.Server{
		"its server": func() *testserver.Server { return nodeOf(t, c, b) },
		"the leader": c.Leader,
	} {
		s := victim()
		session := b.conn.SessionID()
		s.Kill()
		before := l.Deadline()
		eventually(t, "a renewal after "+what+" has died", func() bool {
			if err := l.Err(); err != nil {
				t.Fatalf("after %s has died: %v", what, err)
			}
			return l.Deadline().After(before.Add(patient / 4))
		})
		if now := b.conn.SessionID(); now != session {
			t.Errorf("after %s has died: another session", what)
		}
		s.Start()
		s.AwaitReady()
		eventually(t, "both clients to be connected", func() bool {
			return b.Ping(t.Context()) == nil && rival.Ping(t.Context()) == nil
		})
	}
	if r, err := holder.Allow(t.Context(), "l", limit); err != nil || r.Allowed {
		t.Errorf("one more than the limit after failovers: %+v, %v", r, err)
	}
	select {
	case g := <-granted:
		t.Errorf("a rival was granted beside the holder: %+v", g)
	default:
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if g := <-granted; g.Token <= int64(l.Token()>>10) {
		t.Errorf("token %d after %d", g.Token, l.Token()>>10)
	}
	if err := holder.Close(); err != nil {
		t.Error(err)
	}
}

// A server that has lost its leader answers pings and reads for a while, and the leader ends
// the session meanwhile: the holder must know before a rival is granted.
func TestNightlyPartedFollowerIsNoSignOfLife(t *testing.T) {
	c := testserver.ZooKeeperCluster(t, testserver.WithNetwork())
	follower := c.Followers(c.Leader())[0]
	b := connect(t, urlWith(t, follower.Addr, clusterSession))
	holder := must[*coord.Client](t)(coord.New(b))
	l := must[*coord.Lock](t)(holder.Lock(t.Context(), "k"))
	rival := connect(t, urlWith(t, c.Followers(follower)[0].Addr+","+c.Followers(follower)[1].Addr, clusterSession))
	granted := make(chan error, 1)
	go func() {
		_, err := rival.Lock(t.Context(), "k", request("b", time.Minute), func() {})
		if l.Err() == nil {
			t.Error("a rival was granted while the holder believed in its hold")
		}
		granted <- err
	}()
	eventually(t, "a rival in the queue", func() bool {
		h, err := rival.Inspect(t.Context(), "k")
		return err == nil && h.Waiters == 1
	})
	c.Cut(follower)
	if err := <-granted; err != nil {
		t.Error(err)
	}
	if !errors.Is(l.Err(), coord.ErrLost) {
		t.Errorf("the holder: %v", l.Err())
	}
	if b.conn.State() == zk.StateHasSession {
		t.Log("the follower that was cut off still serves")
	}
	c.Heal()
	if err := holder.Close(); err != nil {
		t.Error(err)
	}
}

// A follower takes with it what it has not told the leader: the session then ends as if the client had
// been silent since its last ping. A lock that was taken in between must have promised no more.
func TestNightlySignsOfLifeDieWithAServer(t *testing.T) {
	t.Parallel()
	c := testserver.ZooKeeperCluster(t)
	follower := c.Followers(c.Leader())[0]
	others := c.Followers(follower)
	rival := connect(t, urlWith(t, others[0].Addr+","+others[1].Addr, calmSession))
	isFree(t, rival, "k")
	p := newTap(t, follower.Addr)
	pinged := make(chan struct{}, 1)
	p.disturb(func(op int32) deed {
		if op == opPing {
			select {
			case pinged <- struct{}{}:
			default:
			}
		}
		return pass
	})
	b := connect(t, urlWith(t, p.addr(), clusterSession))
	<-pinged
	<-pinged
	// Just before the next ping.
	<-time.After(clusterSession/3 - clusterSession/60)
	g := must[driver.Grant](t)(b.TryLock(t.Context(), "k", request("a", clusterSession)))
	follower.Kill()
	// The two others may have to elect a leader first, on a busy machine.
	_, err := rival.Lock(t.Context(), "k", request("b", clusterSession), func() {})
	for n := 0; err != nil; n++ {
		t.Log(err)
		if n == 20 {
			t.Fatal("no grant")
		}
		eventually(t, "the servers that are left serve", func() bool { return rival.Ping(t.Context()) == nil })
		_, err = rival.Lock(t.Context(), "k", request("b", clusterSession), func() {})
	}
	if early := time.Until(g.Since.Add(g.TTL)); early > 0 {
		t.Errorf("a rival was granted %v after a lock was asked for, %v before its lease was over", time.Since(g.Since), early)
	}
}

// What is certain in an ensemble, by the signs of life before.
func TestCertain(t *testing.T) {
	const session = time.Second
	now := time.Now()
	ago := func(ms int) time.Time { return now.Add(-time.Duration(ms) * time.Millisecond) }
	for what, tc := range map[string]struct {
		alone bool
		of    int64
		list  []sign
		open  time.Time
		want  time.Time
	}{
		"a server on its own":          {alone: true, of: 1, want: now},
		"nothing known":                {of: 1, want: ago(375)},
		"a sign in time":               {of: 1, list: []sign{{ago(250), ago(250)}}, want: now},
		"a long chain":                 {of: 1, list: []sign{{ago(700), ago(690)}, {ago(300), ago(299)}, {ago(200), ago(199)}}, want: ago(50)},
		"answered too late":            {of: 1, list: []sign{{ago(400), ago(200)}, {ago(500), ago(300)}}, want: ago(250)},
		"one that is older than ping":  {of: 1, list: []sign{{ago(900), ago(900)}}, want: ago(375)},
		"a new session":                {of: 1, open: ago(100), want: now},
		"a session opened a while ago": {of: 1, open: ago(300), want: ago(50)},
		"one resumed since":            {of: 1, open: now.Add(time.Millisecond), want: ago(375)},
		"a new one of another":         {of: 2, open: ago(100), want: ago(375)},
		"another session's":            {of: 2, list: []sign{{ago(250), ago(250)}}, want: ago(375)},
	} {
		b := &backend{session: session, signs: signs{session: tc.of, opened: tc.open, list: tc.list}}
		b.alone.Store(tc.alone)
		if got := b.certain(1, now); got.Sub(tc.want).Abs() > time.Microsecond {
			t.Errorf("%s: %v before the write, want %v", what, now.Sub(got), now.Sub(tc.want))
		}
	}
}
