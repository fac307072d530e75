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
// memcached is a cache. Choose it if you run nothing else, and not for data that must not be lost:
//
//   - A restart or a flush_all loses every hold and every limit at once. A lock can then be granted while its former
//     holder still believes in it: until the former holder's next renewal, at most a third of its TTL later, or its
//     deadline. Fence your writes.
//   - A full server evicts items that were not used for a long time, such as long leases and idle limits. Give coord
//     a server of its own, with -M, which refuses writes instead of evicting. [Open] warns of a server without -M. A
//     full server with -M grants nothing new. With memcached 1.6 or later and a client that Open made, locks are
//     still renewed and unlocked, in place. Otherwise the server refuses these writes too, and the locks end with
//     their leases, as shared holds do.
//   - When a limit is lost, its taken permits are forgotten. [WithOnMissing] says whether a missing limit counts as
//     fresh or as spent.
//
// # What is stored
//
// A lock named tickets is the item coord/lock/tickets, a line of text:
//
//	coord-lock 1 held token=1763711409000000 ttl=30 until=1763711439000000 id=app@host/4711/…
//
// It is there as long as the lock is taken, and expires with the lease. The state taking, with no token, is a lock
// whose taker has not counted its token yet. The state kept is a lock that nobody holds any more, but that stays
// taken after MinHold or Break. The field until is the lease's end on the holder's clock, for people to read. Beside
// it coord/fence/tickets is the last fencing token, a decimal number. Those who share tickets, as readers, a writer
// or holders of permits, are in one item, coord/shared/tickets%00r or …%00s; see package holders for its text. The
// state of a limit is coord/tb:1:100000/tickets, coord/sw:60000000/tickets or coord/fw:60000000/tickets, by algorithm
// and rate or period in microseconds. In a name, spaces, control characters, '%' and '#' are written as in URLs. A
// name that is too long for memcached is replaced by '#' and its SHA-256, and is kept in full in the value. All items
// expire.
//
// With the selector of Open, all items of one name are on one server. Each server has an item
// coord/servers, the list of servers that its clients have; see [ServersError].
//
// # Leases
//
// A client takes a lock with add, and changes and gives it up only with gets and cas: a client that has lost the lock
// changes nothing. To unlock is a cas that makes the item expire at once. A full server refuses a cas; there the meta
// command md sets the expiry of the item, or removes it, if it has the same cas id. Such a renewal does not update
// the field until.
//
// memcached counts whole seconds on a clock that ticks about once a second, a little slower than that; now and then
// two seconds pass in one tick. An item that is to expire after N seconds therefore lives more than N-2, at most N
// (mostly more than N-1). For a lease of T, the client asks for T+2 seconds. So the lease lasts T for certain, and a
// dead holder's key is free T to T+2 after its last renewal. The clocks of the clients do not matter.
//
// One thing breaks that: a server process that was stopped (SIGSTOP, a suspended machine), or whose clock was starved
// of processor time for a second, may apply the first requests after that by its old clock. The leases that it grants
// by them then end early. The holder learns of it at its next renewal.
//
// # Shared holds
//
// The record of those who share a key is read with gets, and written with cas, or add where there is none: two commands
// for each step, one if it changes nothing. It is there for an hour after the last lease. A key has at most
// 64 holders.
//
// Their leases end by the clocks of the clients, unlike those of locks: no command of memcached can use the server's
// clock, and the clock that the server reports is up to two seconds old. Each lease is kept for a second longer, so
// nothing ends early as long as the clocks of the clients differ by no more than a second. If they differ by e, a
// client whose clock is ahead can get the key before a lease has ended, by up to e less a second. Both then hold it,
// if the first holder was cut off or frozen, or if e is greater than two thirds of its TTL plus a second; tokens
// still rise. If the clock of the last holder is more than a second ahead of that of the next one, the next one logs
// a warning, see [WithLogger].
//
// A full server refuses to write a record, so the holds in the record end with their leases.
//
// # Tokens
//
// After a client has taken a lock, it counts the token with incr. It stores the token with the id by a cas, which
// proves that the lock was not lost in between. A missing counter begins with the client's clock in microseconds. A
// counter expires an hour after its creation and begins again, so tokens rise as long as the clients' clocks differ
// by less than an hour. If the counter was lost earlier, tokens rise as long as the clocks differ by less than the
// age of the counter. The token of a shared hold is the greater of the client's clock and the last token plus one. If
// the record was lost, this token rises if the clocks differ by less than the time since the last grant.
//
// # Limits
//
// Limits run on the clients' clocks. As long as a limit is stored, its time never goes back: a client whose clock is
// behind counts on the time of the last grant. So, with clocks that differ by e at most, a sliding window admits at
// most Rate in any time Per-e, and a token bucket at most Burst + Rate·(W+e)/Per in any time W. A bucket that was
// full and was forgotten begins with another e. A fixed window admits at most Rate by the clocks of the clients. By
// any one clock, a window can also admit, in its first or last e, permits that other clients count to the window
// before or after: up to 2·Rate in all. e counts once, not once per client. Keep clocks synchronised. A client that
// finds a state which is more than a minute ahead of its clock logs a warning, see [WithLogger]. A state that is
// ahead by more than a minute plus the refill time of the limit begins again when it has granted nothing for the
// refill time, however long states are kept.
//
// Callers of one client decide on the same limit one after the other, so that they do not swap against each other.
//
// # Calls
//
// gomemcache knows no contexts. With a client that Open made, a call ends at once with its ctx or with Close. With an
// application's client, coord cannot end a call. So each call runs in a goroutine, which is left behind when the ctx
// ends; it ends within a few of the client's Timeouts, and takes back a lock that came too late. With this goroutine
// a lock and its unlock cost half as much again. The first call on a connection that the server has closed, as when
// it restarts, fails with an unknown outcome; a client that Open made checks the connection first and dials again.
// Only reads are ever sent again, and only over a connection that broke.
package memcached
