// Package etcd keeps locks and limits in etcd 3.4 or later.
//
// [New] works over a client that the application already has. With the URL
//
//	etcd://user:password@host1:2379,host2:2379/namespace
//	etcds://host:2379?tls_ca=/etc/ca.pem
//
// the backend makes a client of its own; [Open] lists the query parameters.
//
// # Locks
//
// Whoever holds a lock or waits for it has one entry in the lock's line:
//
//	coord/lock/tickets/0   =  coord-lock 1 held id=app@host/4711/…
//	coord/lock/tickets/17  =  coord-lock 1 held id=other@host/99/…
//
// The line's name is the key, escaped as in URLs. An entry is named by a number that means nothing: 0 in an empty
// line, a number of its client's or a random one for a waiter. Numbers are small and used again, because etcd
// looks at every name that a line ever had, until its history is compacted. The entry
// that was created first is the holder's; its CreateRevision is the fencing token. So
// a grant is never written: it is the disappearance of whatever came before. An entry
// whose value says released instead of held is nobody's, and keeps the key taken until
// it goes (MinHold, Break). An operator sees all of it with
//
//	etcdctl get --prefix coord/lock/tickets/ --sort-by=CREATE
//
// Each step is one transaction:
//
//	TryLock   if the line is empty            put 0                 else get first
//	Lock      if the name is not in use       put own, get the newest two, else get what has it, and choose another name
//	look      —                               get own, get the one before it
//	Unlock    if own is held and as created   delete own            else get own
//	renew     —                               get own, get own, … up to 100 holds
//	remove    if own is as created, on our lease: delete own
//
// To find the newest entries, the server reads the whole queue: once for each request that joins it, and once for each
// hand-over. That is about a microsecond for each entry of the queue.
//
// An Unlock of an id that this client does not know, or of a wait whose reply was lost, reads the line first.
//
// While four requests of a client are under way, further ones gather: TryLocks and Unlocks of different
// keys and decisions on different limits then share a transaction of up to a hundred smaller ones. None waits longer
// than 10 ms for that; what the server refuses of one is made again one by one.
//
// A waiter watches the one entry before its own. When that goes, it looks: it is granted
// by an answer that has its own entry in it, and none before that. An event proves less, for
// the waiter's own lease may have been revoked meanwhile. The watch
// is established first, at the present revision, and the line read after that: nothing
// falls in between, and the server pushes at once, which it does not for a watch that
// begins in the past. A watch that breaks, that has no leader or whose revision was
// compacted is begun anew. The present of a member that lags is the past of the others: what it tells of
// those that had the name before the entry's own revision is passed over. And every five seconds the waiter looks though nothing was
// pushed.
//
// # Members
//
// Requests go to the members of the cluster in turn. A member that has left a request unanswered for a quarter of a second is
// passed over until it answers, or for ten seconds. This is done by [DialOptions], which an application adds to a client of its
// own. A request that does no harm if it is made twice is made again after half a second, at another member.
//
// # Leases
//
// Holds and waiters with the same TTL in whole seconds share one lease, so that a lock
// and an unlock are two requests. Nothing but a renewal, a waiter or a new lock keeps a
// lease alive, each by one request that is sent at most once in a while for all: there is
// no keepalive in the background that could outlive its reason. What counts is when
// the last acknowledged keepalive was sent. All keepalives of a client are on one stream.
//
// Every hold still ends by itself. At its own deadline the client that made it
// removes it; when that client is dead or cut off, nobody keeps the lease alive, and it
// takes all entries with it. The server looks for expired leases twice a second. A lock
// that the client unlocks with MinHold is bound to a lease of its own.
//
// A request that makes an entry goes on when its caller is cancelled, for two seconds at most, and the
// entry is removed. When the reply is lost, the lease is tainted: it
// is not kept alive any more, and what is known to be bound to it is bound to another
// one at its next renewal. Whatever that request has made, or will make when it arrives
// late, ends with the tainted lease.
//
// A loss is pushed: the entry of a waiter, and of a hold older than 100 ms, is watched.
// All those watches are on one stream of the client, and what waiters wait for is on another. A hold that lasts takes no
// goroutine, a waiter one beside its own.
//
// # Limits
//
// The state of a limit is coord/limit/tickets/tb:1:100000, sw:60000000 or fw:60000000, by
// algorithm and rate or period in microseconds, in the form of package driver/limits. A
// decision is one transaction,
//
//	if ModRevision is the one we know: put the new state, else get it
//
// and so one request, as long as nobody else has written. A client remembers the states of 16,384 limits; one that it
// does not know it takes for new, which costs a second request if it is not. A client's own callers
// take turns; after a defeat by another client it pauses at random for up to about a
// round trip, doubling up to 20 ms, and after six defeats in a row no more, so that nobody
// starves; and that for as long as the caller's context allows. A denial and a peek write
// nothing, and are answered from a state that was read for them.
//
// etcd has no clock to ask. Each state runs on the greatest time that any client gave
// it. If the fastest client's clock is ahead of the true time by ε, then over any time
// W a limit admits at most what its bound allows for W+ε; a client whose clock lags is told
// to wait until its clock has caught up, or for a minute and the time of the limit at most. A state that is further
// ahead begins anew when a client has seen it unchanged for the time of the limit. A client that meets a state which
// is more than a minute ahead warns, see [WithLogger]. Keep the clocks of the machines synchronised, as you would for
// etcd itself.
//
// States expire by leases that last for three times what a state needs, rounded up to a power of
// two from 64 s on. They are not kept alive, not revoked, and cost a decision nothing. A state stays on its lease
// for two thirds of that; 10,000 states share one, and more when a client has 64 of them.
//
// # What etcd cannot do
//
// Tokens are revisions. They rise over restarts and failovers. A snapshot that is
// restored takes the revision back: restore with etcdutl snapshot restore
// --bump-revision 1000000000 --mark-compacted, or give new clients a token floor. A
// cluster that was set up anew begins at 1.
//
// The shortest lease is the server's: 2 s with the default heartbeat and election time-out.
// After a change of leader the new one starts every lease anew, so that the locks of a
// client that has died in that moment may take one TTL more to become free.
package etcd
