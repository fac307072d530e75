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
// The tables are in one schema; sql/schema.sql says what is in each column. The functions that clients call are there
// too. The first call that may write something makes tables and functions that are missing. For this the user needs the
// right to create a schema in the database; [Open] and [New] check this right. Calls that only read make nothing.
// Without the right, run the SQL of [Schema] as another user, and grant the client's user no more than
//
//	GRANT USAGE ON SCHEMA coord TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA coord TO app;
//	GRANT EXECUTE ON ALL ROUTINES IN SCHEMA coord TO app; -- everybody may, unless default privileges were changed
//
// The functions run with the rights of the caller. The name of each function ends in its version: run the SQL of a new
// version of coord, as the owner of the tables, before its clients start. Older clients can run at the same time as new
// ones, unless the new version has another version of the tables: docs/operations/postgresql.md says how to change over
// then.
//
// The rows of a lock, and of those who share a key, stay for an hour after the last lease, to keep the token; the row
// of a limit stays until the limit is full again. One grant in a hundred, at random, removes the rows that are no
// longer needed from one mebibyte of each table.
//
// # What is promised
//
// A lease is a row, and ends by the server's clock, whatever happens to the connection. Each call is one statement,
// which is a transaction of its own and is not prepared, so that PgBouncer may pool transactions. It calls a function,
// for which the server keeps plans in each of its sessions. With prepared=true in the URL, and over a pool that
// prepares statements, calls take a third less time.
//
// Tokens are max(last+1, the server's clock in microseconds). They rise over restarts. They also rise when the rows
// were lost, or when a replica that lacks some rows takes over, provided that the clock did not go back.
//
// Waiters are granted in the order in which they came, over all clients, and nobody overtakes them. They poll, because
// nothing tells them that a key is free. The statement that polls only reads, and touches no row that a holder writes;
// it works the same way behind a pooler of transactions. The first waiter polls after a millisecond, and later after an
// eighth of the time that it has waited, a quarter of a second at most. The others poll less often the more waiters are
// ahead of them. Every waiter polls at least three times in a TTL, or in two seconds if that is shorter. The queue
// passes a waiter that does not poll for that long.
//
// Before a call that grants, renews or ends something returns, its change is on the disk and on the synchronous
// replica. The first waiter can continue while a release is still being written.
//
// Limits run on the server's clock. A client decides on the state that it saw last, at the time that this clock will
// have when the request arrives. One statement writes the new state if the server still has the old state and its clock
// has reached that time; otherwise it reads both. So a change by another client costs one more statement, and so does
// the first decision after ten seconds without any. A denial is one statement, which reads. Several limits take one
// statement together, or three if one of them has changed.
//
// Each of those who share a key has a row, up to 1,024 of them. One statement counts them and decides, with the row of the key
// locked; renewals do without it, many in one statement.
//
// # Operation
//
//   - Keep fsync, full_page_writes and synchronous_commit on. synchronous_commit must be on in each session: [Open]
//     refuses off there.
//   - Set synchronous_standby_names if there are replicas. Otherwise a failover loses the last grants: two clients can
//     hold a lock until the first one's next renewal. With one synchronous replica, its outage stops every grant and
//     renewal: have two, with ANY 1 (…).
//   - Do not cancel a session that waits for a replica (wait_event SyncRep): PostgreSQL then confirms a write that the
//     replica lacks, with a warning. coord treats this warning as an unknown outcome, but not over a pool that you gave
//     to [New]. [Open] refuses client_min_messages = error, which hides the warning.
//   - Keep default_transaction_isolation at read committed. Under repeatable read a waiter may be granted late.
//   - Set max_connections above clients × (pool_size + 2). A pooler of transactions may be between client and server:
//     the tests run behind PgBouncer.
//   - A transaction that is open for long keeps autovacuum from removing dead rows: watch n_dead_tup.
//
// # Fencing
//
// [Fence] is the one case in which a lease excludes late effects: the guarded data is in the same database, and a
// transaction with a stale token cannot commit. A row in the table fences stays for each key.
//
// # Errors
//
// A statement that the server refuses, or rolls back because of another one, has changed nothing. coord repeats a
// statement that was rolled back. When the session or the connection ends, the outcome is unknown. A statement is not
// cancelled with its ctx, because that would cost its connection: the call returns, and the statement ends by itself,
// or with its connection after three times the timeout.
package postgres
