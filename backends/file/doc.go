// Package file is a store in a directory, for the processes of one machine: no
// server, no daemon, nothing to install.
//
//	client, err := coord.Open(ctx, "file:///var/lib/app/coord")
//
// The store makes the directory, for its owner alone, if it is not there. All
// processes that name the same directory share their locks and limits; they run as
// the same user. There are no query parameters.
//
// # One machine
//
// Only processes of one kernel exclude each other. So the store refuses NFS, SMB
// and other filesystems that several machines mount, and filesystems whose file
// locks do not exclude. It cannot detect a filesystem that hides that it is shared,
// as one in user space can: do not share such a directory between machines.
//
// # What survives
//
// Everything survives the end of a process, even kill -9 in the middle of an
// update: a lock that the kernel releases guards each update, and a client writes
// the new value next to the old one. Leases, tokens and limits survive an orderly
// restart of the machine. No update waits for the disk, so a power failure may undo
// the updates of the last seconds. All holders are gone then. Tokens still rise,
// because they follow the clock. A limit may admit again what it admitted in those
// seconds.
//
// # Time
//
// On Linux all clients follow one clock of the machine, which is set once per boot
// and then runs steadily, in suspension too: setting the wall clock neither ends a
// lease nor creates a permit. Open clients lock the directory, and a client that
// joins them adopts their clock. The store refuses this client if the file CLOCK is
// missing: close the other clients, or let one of them lock something, which
// restores the file within a minute.
//
// Where the boot id cannot be read, as in a sandbox, the clock is set again by the
// first client that opens the store while no other is open. On other systems
// than Linux all follow the wall clock.
//
// # In the directory
//
//	FORMAT              which format this is; another one is refused
//	CLOCK               the machine's clock, on Linux
//	cells/00 … cells/3f the cells of the keys, by hash of their name
//	  guard             held by the kernel for the process that updates this part
//	  tmp               a new cell, before it is renamed
//	  lock,orders%2f42  one cell, in two versions of which one counts; text
//
// During other calls, clients remove cells that are no longer needed; the cell of a
// lock stays for an hour after the lease. You may delete the directory, as a whole,
// when no process uses it. A client keeps up to 65 files open. Each call opens another one: holds
// are not renewed while the process has no descriptors left.
//
// It is tested on Linux. Darwin, the BSDs and Windows have what it needs.
package file
