// Package memcached keeps locks and limits on memcached 1.4.23 or later, one server or
// several.
//
// [New] works over a gomemcache client that the application already has. With the URL
//
//	memcached://host:11211,host2:11211?on_missing=empty
//	memcacheds://user:password@host:11211?tls_ca=/etc/ca.pem
//
// the backend makes a client of its own; [Open] lists the query parameters.
//
// memcached is a cache. It is the store to choose where it is what there is, and not the
// one to choose for what must not be lost:
//
//   - A restart or a flush_all loses every hold and every limit at once. A lock can then
//     be granted while its former holder still believes in it: until that one's next
//     renewal, at most a third of its TTL later, or its deadline. Fence your writes.
//   - A full server evicts what was not used for long, long leases and idle limits among
//     it. Give coord a server of its own, with -M, which refuses writes instead of
//     evicting. [Open] warns of a server without. A full server with -M grants nothing new. With
//     memcached 1.6 or later and a client of Open's, its locks are renewed and unlocked all the same, in place;
//     otherwise these writes are refused too, and the locks end with their leases, as shared holds do.
//   - Permits that were taken are forgotten with the limit. [WithOnMissing] says whether a
//     limit that is not there is fresh, or spent.
//
// # What is stored
//
// A lock named tickets is the item coord/lock/tickets, a line of text:
//
//	coord-lock 1 held token=1763711409000000 ttl=30 until=1763711439000000 id=app@host/4711/…
//
// It is there as long as the lock is taken, and expires with the lease. The state taking,
// with no token, is a lock whose taker has not counted its token yet; kept is one that
// nobody holds any more and that stays taken all the same, after MinHold or Break. until is the
// lease's end on the holder's clock, for people to read. Beside it coord/fence/tickets is
// the last fencing token, a decimal number. Those who share tickets, as readers, a writer or holders of permits, are in one
// item, coord/shared/tickets%00r or …%00s; see package holders for its text. The state of a limit is coord/tb:1:100000/tickets,
// coord/sw:60000000/tickets or coord/fw:60000000/tickets, by algorithm and rate or period in
// microseconds. In a name, spaces, control characters, '%' and '#' are written as in URLs. A
// name that is too long for memcached is replaced by '#' and its SHA-256, and is kept in
// full in the value. All items expire.
//
// With the selector of Open, all items of one name are on one server. Each server has an item
// coord/servers, the list of servers that its clients have; see [ServersError].
//
// # Leases
//
// A lock is taken with add, and changed and given up with gets and cas alone: whoever has
// lost it changes nothing. To unlock is a cas that makes the item expire at once. A full server refuses
// a cas; there the meta command md sets the expiry of the item, or removes it, if it has the same cas id. The
// until of a lock that is renewed so stays behind.
//
// memcached counts whole seconds on a clock that ticks about once a second, a little slower
// than that; now and then two seconds pass in one tick. An item that is to expire after N
// seconds therefore lives more than N-2, at most N (mostly more than N-1). A lease of T is
// asked for as T+2 seconds, so it lasts T for certain, and a dead holder's key is free T to
// T+2 after its last renewal. Clocks of clients have no part in it.
//
// One thing breaks that: a server process that was stopped (SIGSTOP, a suspended machine), or
// whose clock was starved of processor time for a second, may apply the first requests after that
// on the clock of before, and end the leases that it grants by them early. The holder learns of it at its next renewal.
//
// # Shared holds
//
// The record of those who share a key is read with gets, and written with cas, or add where there is none: two commands
// for each step, one if it changes nothing. It is there for an hour after the last lease. A key has at most
// 64 holders.
//
// Their leases end by the clocks of the clients, unlike those of locks: memcached does not tell its own to a command, and
// what it tells of it besides is up to two seconds old. Each lease is kept for a second longer, so nothing ends early as
// long as the clocks of the clients lie no more than a second apart. If they differ by e, a client that is
// ahead is granted the key up to e less a second before a lease has ended. The holder overlaps with it then, if it was cut off
// or frozen, or if e is greater than two thirds of its TTL and a second; tokens rise all the same. A client
// that is granted after one that is further ahead than a second warns, see [WithLogger].
//
// A full server refuses to write a record, so that its holds end with their leases.
//
// # Tokens
//
// A token is counted with incr after the lock was taken, and stored with the id by a cas,
// which proves that the lock was not lost in between. A counter that is not there begins
// with the client's clock in microseconds. It expires an hour after that and begins again,
// so tokens rise as long as the clients' clocks agree to within an hour; and, when the
// counter was lost before its time, to within its age. The token of a shared hold is the client's clock, or the
// last one plus one, which is greater. When the record was lost, it rises if the clocks agree to within the time since the
// last grant.
//
// # Limits
//
// Limits run on the clients' clocks. As long as a limit is stored its time never goes back: a client
// whose clock is behind counts on the time of the last grant. So, with clocks that differ by e at most,
// a sliding window admits at most Rate in any time Per-e, and a token bucket at most
// Burst + Rate·(W+e)/Per in any time W; a bucket that has been full, and was forgotten, begins
// with another e. A fixed window admits at most Rate as the clients count it; on any one clock, what others
// count to the window before or after can be admitted in the first or last e of a window too, up
// to 2·Rate in all. e counts once, not once per client. Keep clocks synchronised. A client that meets a state which
// is more than a minute ahead of its clock warns, see [WithLogger]. A state that is further ahead than that and the time
// of the limit begins again when nothing was granted for that time, however long states are kept.
//
// Callers of one client decide on the same limit one after the other, so that they do not swap against each other.
//
// # Calls
//
// gomemcache knows no contexts. With clients of its own, as Open makes them, a call ends where it
// stands, with its ctx or with Close. In an application's client nothing can be ended: there
// each call runs in a goroutine that is left behind when its ctx ends; it ends within a few of the
// client's Timeouts, and takes back a lock that came too late. That goroutine costs a lock and its
// unlock half as much again; and the first call on a connection that the server has closed, as when it
// restarts, fails with an unknown outcome, where a client of Open's looks first and dials again. Only
// reads are ever sent again, and only over a connection that broke.
package memcached
