// Package members lets the conformance suite break one of several servers that a test has started.
package members

import (
	"slices"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/internal/testserver"
)

// Of completes m with the faults of the servers, which it starts when they are first used. After a fault, whole
// waits until all members serve.
func Of(servers func() []*testserver.Server, whole func(), m conformance.Members) *conformance.Members {
	m.Hang = func(_ conformance.TB, i int) func() {
		s := servers()[i]
		s.Pause()
		return func() { s.Resume(); whole() }
	}
	m.Slow = func(_ conformance.TB, i int) func() {
		end := servers()[i].Slow(m.Bound/2, 20*time.Millisecond)
		return func() { end(); whole() }
	}
	return &m
}

// OfCluster is Of for a cluster. A member is cut off where the cluster was started with a network.
func OfCluster(start func() *testserver.Cluster, whole func(*testserver.Cluster), m conformance.Members) *conformance.Members {
	if testserver.HasNetwork() {
		m.CutOff = func(_ conformance.TB, i int) func() {
			c := start()
			c.Isolate(c.Nodes[i])
			return func() { c.Heal(); whole(c) }
		}
	}
	return Of(func() []*testserver.Server { return start().Nodes }, func() { whole(start()) }, m)
}

// OfQuorum is OfCluster for three members of which any two serve. The one that fails is a follower.
func OfQuorum(start func() *testserver.Cluster, m conformance.Members) *conformance.Members {
	of := OfCluster(start, ready, m)
	of.Count = 2
	for _, f := range []*conformance.MemberFault{&of.Hang, &of.CutOff, &of.Slow, &of.Empty} {
		*f = choose(start, *f, follower)
	}
	return of
}

// OfQuorumAndLeader is OfQuorum where the member that hangs, or comes back empty, may be the leader: the others have
// to elect another one within Bound or so. One that is cut off or slow is a follower: CutOff drops only
// what is sent to a member, so that the others may go on voting for a leader whom they cannot reach, and a slow one
// may be elected again and again.
func OfQuorumAndLeader(start func() *testserver.Cluster, m conformance.Members) *conformance.Members {
	plain := OfCluster(start, ready, m)
	of := OfQuorum(start, m)
	of.Count = 3
	of.Hang, of.Empty = choose(start, plain.Hang, member), choose(start, plain.Empty, member)
	return of
}

// member is any member, the leader last.
func member(c *testserver.Cluster, i int) *testserver.Server {
	leader := c.Leader()
	return append(c.Followers(leader), leader)[i]
}

func follower(c *testserver.Cluster, i int) *testserver.Server { return c.Followers(c.Leader())[i%2] }

// choose is the fault of the member that victim gives.
func choose(start func() *testserver.Cluster, fault conformance.MemberFault, victim func(*testserver.Cluster, int) *testserver.Server) conformance.MemberFault {
	if fault == nil {
		return nil
	}
	return func(tb conformance.TB, i int) func() {
		c := start()
		return fault(tb, slices.Index(c.Nodes, victim(c, i)))
	}
}

// ready waits until each member says that it is ready.
func ready(c *testserver.Cluster) {
	for _, s := range c.Nodes {
		s.AwaitReady()
	}
}
