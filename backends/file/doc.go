// Package file is a store in a directory, for the processes of one machine: no
// server, no daemon, nothing to install.
//
//	client, err := coord.Open(ctx, "file:///var/lib/app/coord")
//
// The directory is made, for its owner alone, if it is not there. All processes that
// name the same directory share their locks and limits; they run as the same
// user. There are no query parameters.
//
// # One machine
//
// Processes of one kernel exclude each other, and only those: a directory on a
// filesystem that several machines mount would pretend to more, so that NFS,
// SMB and their like are refused, and so is a filesystem whose file locks do not
// exclude. Where a filesystem hides that it is shared, as one in user space can,
// nothing can be found out: do not share such a directory between machines.
//
// # What survives
//
// Everything survives the end of a process, kill -9 in the middle of an update
// included: the critical section around each update is guarded by a lock that
// the kernel releases, and an update is written beside what it replaces. Leases,
// tokens and limits survive an orderly restart of the machine. Nothing waits for
// the disk, so that a power failure may take back the updates of the last
// seconds: by then all holders are gone, tokens rise all the same, because they
// follow the clock, and a limit may admit once more what it admitted in those
// seconds.
//
// # Time
//
// On Linux all clients follow one clock of the machine, which is set once per boot
// and then runs steadily, in suspension too: setting the wall clock neither ends a
// lease nor mints a permit. Open clients lock the directory, and a client that
// joins them adopts their clock. It is refused if CLOCK is missing then: close the
// others, or let one of them lock something, which restores it within a minute.
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
// A cell that says nothing any more is removed in passing, an hour after the
// lease for a lock. The directory may be deleted, as a whole, when no process uses
// it. A client keeps up to 66 files open, one of them as a reserve: it renews and
// releases its holds when the process has no descriptors left.
//
// It is tested on Linux. Darwin, the BSDs and Windows have what it needs.
package file
