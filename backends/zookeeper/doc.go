// Package zookeeper keeps locks, shared locks and limits on ZooKeeper 3.5 or later.
//
// [Open] works with the URL
//
//	zookeeper://user:password@h1:2181,h2:2181/chroot?session_timeout=10s
//	zookeepers://h1:2281?tls_ca=/etc/ca.pem
//
// and [New] over a connection that the application already has.
//
// # What is stored
//
// Under the path of the URL, or /coord, the container locks/tickets is the queue of
// the lock named tickets. Each of its children is one that holds or waits: an ephemeral
// node 1-TAG-0000000007 with the id as its data. 1 is the version of all this: a lock that has any other child is
// refused. TAG, 32 digits, is a hash of the id, so that
// whoever knows an id finds its node, also after a reply was lost. The lowest number
// holds: every waiter is a fair one. A client removes the containers
// that it has not used for 10 to 40 s, and the server those of clients that have ended.
//
// The node limits/5f/tickets:sw:60000000 is one limit, by algorithm and period in microseconds; 5f is a hash of the
// name. Its only child has a random name, and the limit's state as its data, behind the time at which it says no more
// than its absence. Clients remove those whose time is over.
//
// The node shared/5f/tickets is the guard of the key tickets that several hold, 256 at most: one more is
// driver.ErrUnsupported. One of its children has a random name, as that of a limit. The others are ephemeral nodes of
// those who share the key: 1-TAG-VERSION-hold-permits-0-2-3 has slot 0 and 2 permits of 3, and its id as its data; a
// node with "less" for "hold" says what is left of a hold that became smaller; 1-TAG-head is the head of the queue.
// Guards without such children are removed as limits are.
//
// In names, whatever ZooKeeper does not allow is written %2F, and so are '%' and ':'.
//
// # Requests
//
// A lock that is free is taken by one transaction, which creates the node and answers how many there are; Unlock is one
// delete. One that is not free costs a listing more, and a watch of the node before; being woken, a notification and a
// listing. Four times in each TTL a waiter asks, in a transaction that changes nothing, whether its user may still see
// the queue and leave it. One transaction checks all holds of a client at every renewal. A limit is one setData of its
// child, guarded by the version that was seen last; one that a client has not met before is made by one request,
// or read before by one if it is new and else by two, as the one that it met last was new or not.
//
// A shared hold is a listing of the guard's children and a transaction, with a sync before in an ensemble. The
// transaction makes the node and writes to the guard, at the version that came with the listing; where another client
// came before, both are repeated. Takes of one client on one key wait for each other. A refusal is the listing alone,
// Unlock one delete, and to become smaller one transaction. The head of the queue watches the guard's children: being
// woken, it lists them to watch them again, and asks as before.
//
// # What is promised
//
// The lease is the session's: its timeout, session_timeout as far as the server
// agrees, counts for every hold, and Lock.TTL says so. In an ensemble a server may
// know of a client's sign of life half a tick before the leader does, and may die then. So
// there three quarters of the timeout are promised, and at first, when a client that was idle
// takes a lock, about three eighths: it is renewed at once. The leader opens sessions itself, so a
// lock of a session that has just begun is certain for three quarters, too. A hold whose lease is not renewed is
// given up by its own client, whose session lives on, when the TTL that was asked
// for is over. All this is the same for shared holds. The head of the queue is so until its session ends.
//
// A waiter whose user the server refuses, because the access lists were changed, ends after one TTL. If it may not
// delete its node, that stays until it may, or until the session ends. That would end all other holds, too: close the
// client.
//
// Signs of life are answers to writes: an answer to a read, or to a ping, may come
// from a server that has lost its leader, while the leader ends the session.
//
// The token is the transaction id that created the node, epoch and counter: it
// rises over restarts and elections, and whoever sees the node can read it. It is not
// above all earlier ones once the servers lost all their data.
//
// Limits run on the leader's clock, as answers to writes show it, to a round trip and a
// millisecond: clients differ by no more than that, whatever their own clocks say. A client that has written
// nothing for a minute asks for it before its next decision. Leases run on a clock of the servers that nobody sets.
package zookeeper
