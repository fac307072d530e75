// Package postgres keeps locks and limits on PostgreSQL 14 or later.
//
// [New] works over a pgx pool that the application already has. With the URL
//
//	postgres://user:password@host:5432/database?schema=coord
//
// the backend makes a pool of its own; [Open] lists the query parameters.
//
// # What is stored
//
// The tables are in one schema; sql/schema.sql says what is in each column. The functions that clients call are there too.
// The first call that may write something makes all this unless it is there, which takes the right to create a schema in
// the database; [Open] and [New] look for that right, and calls that only look make nothing. Without it, run the SQL that
// [Schema] gives by another user, and grant the client's user no more than
//
//	GRANT USAGE ON SCHEMA coord TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA coord TO app;
//	GRANT EXECUTE ON ALL ROUTINES IN SCHEMA coord TO app; -- everybody may, unless default privileges were changed
//
// The functions run with the rights of the caller. The name of each ends in its version: run the SQL of a new version of
// coord before its clients start, as the owner of the tables. Older clients go on beside them, unless the tables are of another
// version: docs/operations/postgresql.md says how to go over.
//
// A lock, and those who share a key, stay for an hour after the last lease, for the token; a limit stays until it is
// full again. One grant in a hundred, by chance, removes what is over in a mebibyte of each table.
//
// # What is promised
//
// A lease is a row, and ends by the server's clock, whatever becomes of the connection. Each call is one statement, which
// is a transaction of its own and is not prepared, so that PgBouncer may pool transactions. It calls a function, for which
// the server keeps plans in each of its sessions. With prepared=true in the URL, and over a pool that prepares statements,
// calls take a third less time.
//
// Tokens are max(last+1, the server's clock in microseconds). They rise over restarts; also when the rows were lost, or a
// replica takes over that lacks some, provided that the clock did not go back.
//
// Waiters are granted in the order in which they came, over all clients, and nobody overtakes them. Nobody tells them that
// a key is free: they look, by a statement that reads and touches no row that a holder writes, which is the same behind a
// pooler of transactions. The first looks after a millisecond, and in the end after an eighth of the time that it has
// waited, a quarter of a second at most; others the less often the more are ahead; all of them three times in a TTL, or in two seconds if that is
// shorter. One that does not look for so long is passed.
//
// Every call that grants, renews or ends something is on the disk, and on the synchronous replica, before it returns. The first
// waiter goes on while a release is being written.
//
// Limits run on the server's clock. A client decides on the state that it saw last, at the time that this clock will have when
// the request arrives. One statement writes the new state if the server has the old one and its clock has come so far,
// and else reads them: a change by another client costs one statement more, and so does the first decision after ten seconds
// without any. A denial is one statement, which reads. Several limits are taken by one statement, or three if one has
// changed.
//
// Each of those who share a key has a row, up to 1,024 of them. One statement counts them and decides, with the row of the key
// locked; renewals do without it, many in one statement.
//
// # Operation
//
//   - fsync, full_page_writes and synchronous_commit are on, the last in each session; [Open] refuses off there.
//   - synchronous_standby_names is set where there are replicas, or a failover loses the last grants: two clients can hold a
//     lock until the first one's next renewal. With one synchronous replica, its outage stops every grant and renewal: have
//     two, with ANY 1 (…).
//   - A session that waits for a replica (wait_event SyncRep) is not cancelled: PostgreSQL then confirms what the replica
//     lacks, with a warning. coord takes that for an unknown outcome, but not over a pool that was given to [New]. [Open]
//     refuses client_min_messages = error, which hides the warning.
//   - default_transaction_isolation is read committed. Under repeatable read a waiter may be granted late.
//   - max_connections is above clients × (pool_size + 2). A pooler of transactions may be between: the tests run behind PgBouncer.
//   - A transaction that is open for long keeps autovacuum from removing dead rows: watch n_dead_tup.
//
// # Fencing
//
// [Fence] is the one case in which a lease gives exclusion of effects: what is guarded is in the same database, and a
// transaction with a stale token cannot commit. A row in the table fences stays for each key.
//
// # Errors
//
// A statement that the server refuses, or undoes because of another, has changed nothing; one that was undone is run
// again. When the session or the connection ends, the outcome is unknown. A statement is not cancelled with its
// ctx, because that would cost its connection: the call returns, and the statement ends by itself, or with its
// connection after three times the timeout.
package postgres
