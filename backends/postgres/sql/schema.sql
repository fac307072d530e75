-- The tables and functions of coord, version 2. To run it again changes nothing.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock(7164780126218674276);
DO $$ BEGIN -- its owner may lack the right to make others
	IF to_regnamespace('{schema}') IS NULL THEN
		CREATE SCHEMA {schema};
	END IF;
END $$;

-- A lock, and for an hour after its lease its last token. state is held, kept (taken, though nobody holds) or free. until is at
-- most ttl away, unless the clock was set back. If not queued, nobody waits.
CREATE TABLE IF NOT EXISTS {schema}.locks (
	key bytea PRIMARY KEY,
	id text NOT NULL,
	state text NOT NULL,
	token bigint NOT NULL,
	until timestamptz NOT NULL,
	queued boolean NOT NULL DEFAULT false,
	ttl interval NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Who waits for a lock, in the order of place, until then, unless it asks again. To be granted the lock takes the row.
-- Functions find a row by its id with IS NOT DISTINCT FROM the key, which leaves one index: the server does not know how long a
-- queue is.
CREATE TABLE IF NOT EXISTS {schema}.waiters (
	key bytea NOT NULL,
	id text COLLATE "C" NOT NULL,
	place bigint GENERATED ALWAYS AS IDENTITY,
	until timestamptz NOT NULL,
	PRIMARY KEY (key, place),
	UNIQUE (id, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- A key that several share: the last token, and the head of its queue, which keeps others away until then.
CREATE TABLE IF NOT EXISTS {schema}.shares (
	key bytea PRIMARY KEY,
	token bigint NOT NULL,
	head text COLLATE "C" NOT NULL,
	head_until timestamptz NOT NULL,
	until timestamptz NOT NULL -- when it was granted last
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Who shares a key: as reader, writer, or with weight of at most bound permits. One that is broken counts until its lease ends.
CREATE TABLE IF NOT EXISTS {schema}.holders (
	key bytea NOT NULL,
	id text COLLATE "C" NOT NULL,
	token bigint NOT NULL,
	mode text NOT NULL,
	weight bigint NOT NULL,
	bound bigint NOT NULL,
	slot int NOT NULL,
	broken boolean NOT NULL,
	until timestamptz NOT NULL,
	ttl interval NOT NULL,
	PRIMARY KEY (key, id, token)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- A limit. version is a random number, new with each value.
CREATE TABLE IF NOT EXISTS {schema}.cells (
	kind text COLLATE "C" NOT NULL,
	key bytea NOT NULL,
	name text COLLATE "C" NOT NULL,
	version bigint NOT NULL,
	value bytea NOT NULL,
	until timestamptz NOT NULL,
	PRIMARY KEY (key, kind, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- The last fencing token of each key, and what refuses a smaller one: an error, which ends the transaction.
CREATE TABLE IF NOT EXISTS {schema}.fences (
	key bytea PRIMARY KEY,
	token bigint NOT NULL
);
CREATE OR REPLACE FUNCTION {schema}.fence(of_key bytea, with_token bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	writer xid;
BEGIN
	INSERT INTO {schema}.fences AS f VALUES (of_key, with_token)
	ON CONFLICT (key) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token
	RETURNING f.xmin INTO writer;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'coord: a greater fencing token than % was seen', with_token USING ERRCODE = 'CO001';
	END IF;
	IF writer <> pg_current_xact_id()::xid THEN -- a rollback to the savepoint would take the fence away
		RAISE EXCEPTION 'coord: a fence within a savepoint: want it in the transaction itself' USING ERRCODE = 'CO002';
	END IF;
END
$$;

{upgrade}
-- The functions that clients call. One that is changed gets another number in its name, and the old one stays for older
-- clients.
{functions}
CREATE TABLE IF NOT EXISTS {schema}.version (version int PRIMARY KEY);
INSERT INTO {schema}.version VALUES (2) ON CONFLICT DO NOTHING;
COMMIT;
