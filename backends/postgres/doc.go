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
// The tables are in one schema; sql/schema.sql says what is in each column. [Open] and [New] make them unless they are
// there, which takes the right to create a schema in the database. Without it, run the SQL that [Schema] gives by another
// user, and grant the client's user no more than
//
//	GRANT USAGE ON SCHEMA coord TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA coord TO app;
//
// A lock, and those who share a key, stay for an hour after the last lease, for the token; a limit stays until it is
// full again. Each hundred grants of a client remove what is over among a thousand rows of each table.
//
// # What is promised
//
// A lease is a row, and ends by the server's clock, whatever becomes of the connection. Each call is one statement, which
// is a transaction of its own and is not prepared, so that PgBouncer may pool transactions. Without a pooler, or with one
// that knows prepared statements, as PgBouncer 1.21 does, set [WithPrepared], or prepared=true in the URL: a lock and its
// unlock then take about a third of the time.
//
// Tokens are max(last+1, the server's clock in microseconds). They rise over restarts; also when the rows were lost, or a
// replica takes over that lacks some, provided that the clock did not go back.
//
// Waiters are granted in the order in which they came, over all clients, and nobody overtakes them. Whoever frees the key
// notifies the first, by NOTIFY on the channel coord_ and the schema, and that one asks again. A client that waits has
// one more connection, outside of the pool, for notifications. All waiters ask besides, three times in a TTL, or in two
// seconds if that is shorter; one that does not for so long is passed. Where no notification comes, as behind a pooler of
// transactions, they ask 20 times a second, in the same order.
//
// Limits run on the server's clock. A decision is two statements, one that reads the state and the clock, and one that
// writes if nobody was faster; a denial is one. Several limits are taken by the same two. Those who share a key are one
// row, of up to 64 holders, with two statements for each step.
//
// # Operation
//
//   - fsync, full_page_writes and synchronous_commit are on, the last in each session; [Open] refuses one without it.
//   - synchronous_standby_names is set where there are replicas, or a failover loses the last grants: two clients can hold a
//     lock until the first one's next renewal.
//   - max_connections is above clients × pool_size, and one more for each client that waits.
//   - Behind a pooler of transactions waiters ask 20 times a second. No pooler is among the tests: they prove that
//     nothing is prepared.
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
// ctx, because that would cost its connection: the call returns, and the statement ends by itself or by the
// timeout.
package postgres
