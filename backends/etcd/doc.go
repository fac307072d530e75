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
// Each holder and each waiter has one entry in the queue of the lock:
//
//	coord/lock/tickets/0   =  coord-lock 1 held id=app@host/4711/…
//	coord/lock/tickets/17  =  coord-lock 1 held id=other@host/99/…
//
// The prefix is the key, escaped as in URLs. The name of an entry is a number without a meaning: 0 of a TryLock, and the number
// of its client or a random one of a Lock. Numbers are small and used again, because etcd looks at every name that a queue ever
// had, until its history is compacted.
//
// The entry that was created first is the holder's, and its CreateRevision is the fencing token. So a grant is never
// written: a waiter is granted when all entries before its own are gone. An entry whose value says released instead of
// held belongs to nobody, and keeps the key taken until it expires (MinHold, Break). An operator sees the queue with
//
//	etcdctl get --prefix coord/lock/tickets/ --sort-by=CREATE
//
// Each step is one transaction:
//
//	TryLock   if the queue is empty           put 0                 else get the first entry
//	Lock      if the name is not in use       put own, get the newest two, else get the entry of that name, and choose another
//	look      —                               get own, get the one before it
//	Unlock    if own is held and as created   delete own            else get own
//	renew     —                               get own, get own, … up to 100 holds
//	remove    if own is as created, on our lease: delete own
//
// To find the newest entries, the server reads the whole queue: once for each request that joins it, and once for each
// hand-over. That takes about a microsecond for each entry.
//
// Unlock reads the queue first if this client does not know the id, or if the reply to its wait was lost.
//
// While four requests of a client are in progress, further ones are collected: those that make or end entries of different keys
// and decisions on different limits then share a transaction of up to a hundred smaller ones. A request waits at most 10 ms for
// that. If the server refuses one of them, all are sent again one by one.
//
// Lock is granted at once if the answer shows no other entry. Else it waits. A waiter watches only the entry before its own. When that entry is gone, the waiter reads the queue. It is granted by an
// answer that contains its own entry, and none before it. The event alone is not enough, because the waiter's own lease may
// have been revoked meanwhile.
//
// The watch begins first, at the current revision, and the queue is read after that, so that no change is missed. The
// server delivers events of such a watch at once, but not those of a watch that begins in the past. If the watch ends,
// because its stream breaks or its member has no leader, the waiter begins another and reads again. A member that lags may
// report old deletions of an entry with the same name: events older than the entry are ignored. The waiter also reads the
// queue every five seconds. If that shows an event that was not pushed, the stream is given up for another one.
//
// # Shared holds
//
// Those who share a key have one entry each, on the same leases:
//
//	coord/shared/tickets/r/0000  =  coord-shared 1 held permits weight=1 of=3 id=app@host/4711/…
//	coord/shared/tickets/w/head  =  coord-shared 1 head id=other@host/99/…
//
// Readers and holders of permits are under r/, and the number is their slot. The writer, w/0000, and the head of the queue
// are under w/. The token is the CreateRevision. A writer that becomes a reader is written in place, and keeps its name, its
// slot and its token. A hold that was broken counts until its lease ends.
//
// A take reads all entries of the key, at a revision R, decides, and makes its entry in a transaction, on the condition that
// nobody has come since. Some may have gone since: that gives only more room. It begins again, after a random pause of up to
// 20 ms, if somebody has come:
//
//	read      if nothing under w/ is newer than R, and the slot is free: put own, delete the own head
//	others    if nothing is newer than R: put own, delete the own head
//	head      if w/head is free: put w/head
//	shrink    if own is as it was read: put own
//
// So a take is two requests, a refusal is one, and a release is one. A client makes one take of a key at a time.
//
// A slot is the lowest one that was free when the key was read. The head ends with its grant, with Unlock, or with a lease of
// its own, of a second or the shortest that the server grants, which each attempt keeps alive. A key can have 256 holders,
// because each take reads all of them. One more is ErrUnsupported.
//
// # Members
//
// Requests go to the members of the cluster in turn. A member that has not answered a request within a quarter of a second
// gets no requests until it answers, or for ten seconds. [DialOptions] does this; an application adds it to a client of its
// own. A request that may be sent twice without harm is sent again after half a second, to another member.
//
// # Leases
//
// Holds and waiters with the same TTL in whole seconds share one lease, so that a lock and an unlock are two requests. Only
// a renewal, a waiter or a new lock keeps a lease alive, with one request for all of them. Nothing in the background
// keeps a lease alive without a reason. A lease is counted from the moment when the last acknowledged keep-alive request
// was sent. All these requests of a client use one stream. A lease that is over by this count is not used again, whatever a
// late answer says: its waiters move to another lease.
//
// A leader of etcd that stood still and was replaced may revoke leases that the next one keeps alive, in every version. So a
// hold relies on a keep-alive request only if it was answered in the raft term in which its lease was granted. After an
// election holds and waiters move to new leases, which the old leader does not know, with their next renewal. A server
// whose quota is used up grants none: holds then stay on theirs, and may end early if an old leader comes back.
//
// Each hold still ends by itself. The client removes it at its deadline. If the client is dead or cut off, nobody keeps the
// lease alive, and the server removes all its entries. The server looks for expired leases twice a second. A lock that
// is unlocked with MinHold is bound to a lease of its own.
//
// If the caller of a request that makes an entry is cancelled, the request continues for two seconds at most, and the
// entry is removed. If the reply is lost, the lease is tainted: it is not kept alive any more, and everything known to be
// bound to it moves to another lease at its next renewal. So an entry that the request has made, or makes later, ends with
// the tainted lease.
//
// No entry of a client's own is watched: a holder learns of a loss with its next renewal, after a third of the TTL at
// most, and a waiter when it reads the queue. The watches of a client share one stream.
//
// # Limits
//
// The state of a limit is coord/limit/tickets/tb:1:100000, sw:60000000 or fw:60000000, by
// algorithm and rate or period in microseconds, in the form of package driver/limits. A
// decision is one transaction,
//
//	if ModRevision is the one we know: put the new state, else get it
//
// and so one request, as long as no other client has written. A client remembers the states of 16,384 limits. It assumes
// that a limit that it does not remember is new; if it is not, the decision costs a second request. Callers of one client
// decide one after the other. If another client was faster, the client pauses at random for up to about a round trip,
// doubling up to 20 ms. After six such defeats in a row it does not pause any more, so that it cannot starve. It tries again
// for as long as the caller's context allows. A denial and a peek write nothing; the state is read for them.
//
// etcd has no clock that a client can read. Each state runs on the greatest time that any client gave it. If the fastest
// client's clock is ahead of the true time by ε, then over any time W a limit admits at most what its bound allows for W+ε.
// A client whose clock is behind is told to wait until its clock has caught up, but for a minute and the period of the
// limit at most. A state further ahead begins again when a client has seen it unchanged for the period of the limit. A client
// warns if a state is more than a minute ahead, see [WithLogger]. Keep the clocks of the machines synchronised, as etcd
// itself needs it.
//
// States expire by leases of three times the period that a state needs, rounded up to a power of two from 64 s on. The
// leases are neither kept alive nor revoked, and cost a decision nothing. A state stays on its lease for two thirds of that
// time. 10,000 states share a lease; more, when a client has 64 leases.
//
// # What etcd cannot do
//
// Tokens are revisions. They rise over restarts and failovers. A snapshot that is
// restored takes the revision back: restore with etcdutl snapshot restore
// --bump-revision 1000000000 --mark-compacted, or give new clients a token floor. A
// cluster that was set up again begins at 1.
//
// The shortest lease is the server's: 2 s with the default heartbeat and election time-out.
// After a change of leader the new one starts every lease again, so that the locks of a
// client that has died in that moment may take one TTL more to become free.
package etcd
