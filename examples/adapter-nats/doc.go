// Package natskv brings NATS JetStream key-value to coord: locks and limits in a bucket.
//
//	import _ "github.com/coordgo/coord/examples/adapter-nats"
//
//	client, err := coord.Open(ctx, "nats://localhost:4222/coord")
//
// It wants a server of version 2.11 or later, and a bucket as [Create] makes it. It was
// written from docs/writing-an-adapter.md and docs/adapters-in-depth.md alone, as a test of these pages.
//
// # What is stored
//
// A lock is one key, "lock.KEY", all who share a key another, "shared.KEY", a limit a third, "limit.STATE.KEY". Bytes other than
// letters, digits, "-" and "_" are escaped as "=3A"; what is then longer than 200 bytes is replaced by its
// SHA-256. Every value has a time to live of its own, so that the bucket empties itself.
//
// # Guarantees
//
// Every change is a publication on condition of the key's last revision, sent once. Reads are answered by
// the stream's leader, never by a replica. A leader that was deposed and has not noticed may answer a read with what was true
// before; a change can then not follow, but "not held" may come too early.
//
// Leases end, and limits count, by the clock of the stream's leader, which a client asks for at least once a minute. Two clients
// are apart by at most the bucket's skew (250 ms unless it was created with another), and a lock whose holder died is free by as
// much later. Limits are as exact as that. In a cluster the clocks of the servers have to agree within a small part of the skew, because
// the leader may change.
//
// Acknowledged writes survive kill -9 of the server. Whether they survive a power failure is a matter of the server's
// sync_interval: two minutes of them may be lost by default, none with "always".
package natskv

import "github.com/coordgo/coord/driver"

// Claims are what a bucket that [New] accepts promises, with one server or several.
var Claims = driver.Claims{
	driver.PerHoldTTL, driver.Inspect, driver.Break, driver.Shared, driver.MinHoldAfterExit,
	driver.TokenProcess, driver.TokenRestart, driver.TokenClockSeeded,
	driver.DurableRestart, driver.NoEviction, driver.Reserve, driver.Charge, driver.ScopeHosts,
}
