// Package redis keeps locks and limits on Redis 6.2 or later, or Valkey.
//
// [New] works over a go-redis client that the application already has. With the
// URL
//
//	redis://user:password@host:6379/0
//	rediss://host:6379?tls_ca=/etc/ca.pem
//	redis+sentinel://user:password@sentinel1:26379,sentinel2:26379/mymaster/0
//	redis+cluster://user:password@host1:6379,host2:6379
//
// the backend makes a client of its own; [Open] lists the query parameters.
//
// # What is stored
//
// A lock named tickets is the string coord:{tickets}, which has a version, 1, and the id of the hold, and
// expires with its lease: GET shows who holds it, or "1 offered" and the id of the waiter to which it is
// offered. Any other value is refused. Beside it coord:{tickets}:fence is the last fencing token. While
// others wait for the lock, coord:{tickets}:queue has their ids in order, and coord:{tickets}:waiters what is
// known of each. The state of a limit is coord:{tickets}:tb:1:100000, :sw:60000000 or :fw:60000000, by
// algorithm and rate or period in microseconds: a byte of 1, its version, and packed doubles, and a hash :h
// with what can be given back. Shared holds of tickets, that is, of readers, writers and permits, are the
// hash coord:{tickets}:shared. It has a field for each hold, named by its id, or by id, "broken" and token if
// it was broken. Other fields are the last token, the mark of the head of the queue, the sums over the holds,
// and the clients that get a message after a change. Each value begins with a byte of 2, its version. All
// keys of one name share a hash tag, and each of them expires. In a name, '%' and '}' are written %25 and
// %7D.
//
// # What is promised
//
// Each operation is one script, and the backend sends it once, whatever the client's MaxRetries. A call ends
// with its ctx. For this the call needs a goroutine while it runs, unless ctx never ends: then the client's
// ReadTimeout bounds the call. While four calls to a server are under way, further calls wait until one of
// them returns, two milliseconds at most, and then go together in one pipeline. So many goroutines need few
// round trips, and a few goroutines never wait for each other. The hooks of the client see such a pipeline
// without any caller's context. Limits run on the server's clock. Leases are relative times on the server's
// clock: clients' clocks do not matter.
//
// Tokens are max(last+1, the server's clock in microseconds). They rise even when Redis lost everything,
// provided that its clock did not go back. Without such a loss they rise for at least an hour after a lease,
// whatever the clock does.
//
// Waiters are granted in the order in which they came, over all clients, and nobody overtakes them. The
// script that releases a lock offers it to the next waiter. The offer lasts some 50 ms plus twice the time
// that the server takes to answer the waiter's client. The script sends a message to that client on its own
// channel, coord:wake: and a random number, and the waiter takes the lock by one script. The queue passes
// over a waiter that does not take the lock, but keeps its place for 16 seconds: if the waiter sends a
// request in that time, it is the first again. A client begins to listen, on one more connection, when it
// first waits at the server. Messages get lost with a connection: then waiters ask the server, as all waiters
// do every two seconds. Where the user may not publish there, waiters poll, and the backend does not claim
// wake.
//
// A key has at most 1,024 shared holds. The script that adds one reads all of them, which takes the server
// about 1 ms if there are 1,000, and 0.25 ms if there are 250. A refused attempt reads all of them once after
// each change; the other scripts touch one hold. The client of the queue's head gets a message on its channel
// after each change. The head polls if its user may not publish or subscribe. In any case it asks three times
// a second, because the holder's user may lack the right to publish.
//
// Several limits are taken in one step, all or none.
//
// # Sentinels and clusters
//
// On a cluster each name is in one slot, with all its keys. So locks and limits are as atomic as on one
// server; several limits at once are so only for one name, and ErrUnsupported for more. Redirections, by
// which a node says that it did not run a command, are followed; nothing else is sent again. A client listens
// on each master that has a lock for which it waits. While a slot moves, nobody can take a free lock in it:
// calls wait about a second for the move.
//
// A store that is opened by a redis+sentinel URL asks all sentinels side by side and follows
// the newest configuration, once a majority has answered. When they have elected another
// master, all connections to the old one are closed. While there is no majority, the
// client stays with the master that it knows, and no store can be opened. A client of
// redis.NewFailoverClient, given to [New], follows the first sentinel that answers.
//
// Redis replicates after it has answered. A failover to a replica that has not received the last writes loses
// them. The new master can then grant a lock while its former holder still believes in it. The former holder
// sees the loss at the next renewal that is answered, and at its deadline at the latest. Renewals never bring
// the lock back. The same happens with a master that is cut off from the others and has not noticed. The
// later holder's token is greater if the clocks of the servers differ by less than the time since the lost
// grant. Fence your writes. Limits admit at most the lost grants again.
//
// [WithWaitReplicas] makes such a loss rarer, at the price of a round trip between the
// servers for each grant; so do min-replicas-to-write and, for masters that are cut off,
// min-replicas-max-lag in the servers' own configuration. None of them rules it out.
package redis
