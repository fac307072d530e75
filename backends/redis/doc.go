// Package redis keeps locks and limits on Redis 6.2 or later, or Valkey.
//
// [New] works over a go-redis client that the application already has. With the
// URL
//
//	redis://user:password@host:6379/0
//	rediss://host:6379?tls_ca=/etc/ca.pem
//
// the backend makes a client of its own; [Open] lists the query parameters.
//
// # What is stored
//
// A lock named tickets is the string coord:{tickets}, which holds the id of the
// hold and expires with its lease: GET shows who holds it. Beside it
// coord:{tickets}:fence is the last fencing token. The state of a limit is
// coord:{tickets}:tb, :sw:60000000 or :fw:60000000, by algorithm and period in
// microseconds, packed as doubles, with a hash :h beside it for sub-windows and
// reservations. All keys of one name share a hash tag, and each of them expires. In a name, '%' and '}' are written %25 and %7D.
//
// # What is promised
//
// Each operation is one script, made once: nothing is sent again behind the
// caller's back, whatever the client's MaxRetries. A call ends with its ctx. That
// takes a goroutine for the time of the call, unless ctx never ends: then the
// client's ReadTimeout bounds it. Limits run on the server's
// clock. Leases are relative times on the server's clock: clients' clocks do not
// matter.
//
// Tokens are max(last+1, the server's clock in microseconds). They rise even
// when Redis lost everything, provided that its clock did not go back; and
// without such a loss, for an hour after a lease, whatever the clock does.
//
// A failover to a replica that has not seen the last writes loses them: a lock
// can then be granted while its former holder, who learns of it at the next
// renewal, still believes in it. Fence your writes. Limits admit at most the
// lost grants again.
package redis
