-- The tables and functions of coord, version 1. To run it again changes nothing.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock(7164780126218674276);
DO $$ BEGIN -- its owner may lack the right to make others
	IF to_regnamespace('coord') IS NULL THEN
		CREATE SCHEMA coord;
	END IF;
END $$;

-- A lock, and for an hour after its lease its last token. state is held, kept (taken, though nobody holds) or free.
-- Until queued has passed there may be waiters.
CREATE TABLE IF NOT EXISTS coord.locks (
	key bytea PRIMARY KEY,
	id text NOT NULL,
	state text NOT NULL,
	token bigint NOT NULL,
	until timestamptz NOT NULL,
	queued timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Who waits for a lock, in the order of place, until then, unless it asks again.
CREATE TABLE IF NOT EXISTS coord.waiters (
	key bytea NOT NULL,
	id text COLLATE "C" NOT NULL,
	place bigint GENERATED ALWAYS AS IDENTITY,
	until timestamptz NOT NULL,
	PRIMARY KEY (key, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- A limit, or those who share a key. version is a random number, new with each value.
CREATE TABLE IF NOT EXISTS coord.cells (
	kind text COLLATE "C" NOT NULL,
	key bytea NOT NULL,
	name text COLLATE "C" NOT NULL,
	version bigint NOT NULL,
	value bytea NOT NULL,
	until timestamptz NOT NULL,
	PRIMARY KEY (key, kind, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- The last fencing token of each key, and what refuses a smaller one: an error, which ends the transaction.
CREATE TABLE IF NOT EXISTS coord.fences (
	key bytea PRIMARY KEY,
	token bigint NOT NULL
);
CREATE OR REPLACE FUNCTION coord.fence(of_key bytea, with_token bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	writer xid;
BEGIN
	INSERT INTO coord.fences AS f VALUES (of_key, with_token)
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

-- The functions that clients call. One that is changed gets another number in its name, and the old one stays for older
-- clients.
-- lock: whether the lock is granted, its token, and the microseconds that are left of the lease in the way, or of the new one.
CREATE OR REPLACE FUNCTION coord.lock_1(
	of_key bytea, by_id text, ttl interval, waits boolean, place_lasts interval,
	OUT granted boolean, OUT with_token bigint, OUT remains bigint
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	was coord.locks;
	now timestamptz;
	ends timestamptz;
BEGIN
	-- A try at a lock that another one has writes nothing.
	IF NOT waits THEN
		SELECT false, 0, (extract(epoch FROM until - clock_timestamp()) * 1000000.0)::bigint INTO granted, with_token, remains
		FROM coord.locks
		WHERE key = of_key AND state <> 'free' AND NOT (state = 'held' AND id = by_id) AND until > clock_timestamp();
		IF FOUND THEN
			RETURN;
		END IF;
	END IF;

	-- Most often nobody has it, and nobody waits. The row is locked from here on, also if it stays as it is.
	INSERT INTO coord.locks AS l (key, id, state, token, until)
	VALUES (of_key, by_id, 'held', (extract(epoch FROM clock_timestamp()) * 1000000.0)::bigint, clock_timestamp() + ttl)
	ON CONFLICT (key) DO UPDATE
	SET id = excluded.id, state = 'held', token = greatest(l.token + 1, (extract(epoch FROM clock_timestamp()) * 1000000.0)::bigint), until = clock_timestamp() + ttl
	WHERE (l.state = 'free' OR l.until <= clock_timestamp()) AND l.queued <= clock_timestamp()
	RETURNING true, l.token, (extract(epoch FROM ttl) * 1000000.0)::bigint INTO granted, with_token, remains;
	IF FOUND THEN
		RETURN;
	END IF;

	-- Every request that takes or leaves a place has the row locked, so this sees all of them.
	SELECT * INTO was FROM coord.locks WHERE key = of_key;
	now := clock_timestamp();
	ends := now + ttl;
	with_token := was.token;
	granted := was.state = 'held' AND was.id = by_id AND was.until > now;
	IF granted THEN -- the request is repeated
		ends := greatest(was.until, ends);
	ELSIF was.state = 'free' OR was.until <= now THEN
		granted := NOT EXISTS (
			SELECT FROM coord.waiters AS w
			WHERE w.key = of_key AND w.id <> by_id AND w.until > now AND w.place < coalesce(
				(SELECT place FROM coord.waiters WHERE key = of_key AND id = by_id), 9223372036854775807)
		);
		with_token := greatest(was.token + 1, (extract(epoch FROM now) * 1000000.0)::bigint);
	END IF;

	IF granted THEN
		UPDATE coord.locks SET id = by_id, state = 'held', token = with_token, until = ends WHERE key = of_key;
		DELETE FROM coord.waiters WHERE key = of_key AND (id = by_id OR until < now - interval '1 minute');
		remains := (extract(epoch FROM ends - now) * 1000000.0)::bigint;
		RETURN;
	END IF;
	IF waits THEN
		UPDATE coord.locks SET queued = greatest(queued, now + place_lasts) WHERE key = of_key;
		INSERT INTO coord.waiters (key, id, until) VALUES (of_key, by_id, now + place_lasts)
		ON CONFLICT (key, id) DO UPDATE SET until = excluded.until;
	END IF;
	with_token := 0;
	remains := (extract(epoch FROM was.until - now) * 1000000.0)::bigint;
END
$$;

-- unlock: whether there was a hold of the id, or a place in the queue. Whoever leaves a key free, or ends a lease sooner, notifies
-- the first in the queue.
CREATE OR REPLACE FUNCTION coord.unlock_1(of_key bytea, by_id text, kept interval) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	ended boolean;
	awaited boolean;
	late boolean;
	first text;
BEGIN
	LOOP
		UPDATE coord.locks
		SET state = CASE WHEN kept > interval '0' THEN 'kept' ELSE 'free' END, until = clock_timestamp() + kept
		WHERE key = of_key AND id = by_id AND state = 'held' AND until > clock_timestamp()
		RETURNING queued > clock_timestamp() INTO awaited;
		ended := FOUND;
		EXIT WHEN ended;

		-- The row is locked first: of several that leave at once the last one sees who is left, and a request of this id
		-- that waited for the row has been granted.
		SELECT state = 'free' OR until <= clock_timestamp(), state = 'held' AND id = by_id AND until > clock_timestamp()
		INTO awaited, late FROM coord.locks WHERE key = of_key FOR UPDATE;
		CONTINUE WHEN late;
		DELETE FROM coord.waiters WHERE key = of_key AND id = by_id RETURNING until > clock_timestamp() INTO ended;
		awaited := FOUND AND awaited;
		ended := coalesce(ended, false);
		EXIT;
	END LOOP;

	IF awaited THEN
		SELECT id INTO first FROM coord.waiters WHERE key = of_key AND until > clock_timestamp() ORDER BY place LIMIT 1;
		IF FOUND THEN
			PERFORM pg_notify('coord_coord', encode(sha256(of_key), 'hex') || ' ' || first);
		END IF;
	END IF;
	RETURN ended;
END
$$;

-- renew: the holds that are left, each with its token and the microseconds of its lease. One that waits is alone, and waits
-- for its row. Otherwise those whose rows are locked are not renewed, and have no token.
CREATE OR REPLACE FUNCTION coord.renew_2(keys bytea[], ids text[], ttls interval[], waits boolean)
RETURNS TABLE (of_key bytea, by_id text, with_token bigint, remains bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	IF waits THEN
		-- The row is locked first: a lease that ends meanwhile is not renewed.
		PERFORM FROM coord.locks AS l WHERE l.key = keys[1] AND l.id = ids[1] FOR UPDATE;
		RETURN QUERY
		UPDATE coord.locks AS l SET until = greatest(l.until, clock_timestamp() + ttls[1])
		WHERE l.key = keys[1] AND l.id = ids[1] AND l.state = 'held' AND l.until > clock_timestamp()
		RETURNING l.key, l.id, l.token, (extract(epoch FROM l.until - clock_timestamp()) * 1000000.0)::bigint;
		RETURN;
	END IF;

	-- The server plans for a few holds, whatever their number: two of these lists are not joined, which would take the
	-- square of that.
	RETURN QUERY
	WITH free AS MATERIALIZED (
		SELECT w.key, w.id, w.ttl FROM unnest(keys, ids, ttls) AS w (key, id, ttl) JOIN coord.locks AS l ON l.key = w.key
		FOR UPDATE OF l SKIP LOCKED
	), renewed AS (
		UPDATE coord.locks AS l SET until = greatest(l.until, clock_timestamp() + f.ttl) FROM free AS f
		WHERE l.key = f.key AND l.id = f.id AND l.state = 'held' AND l.until > clock_timestamp()
		RETURNING l.key, l.id, l.token, (extract(epoch FROM l.until - clock_timestamp()) * 1000000.0)::bigint
	)
	SELECT * FROM renewed
	UNION ALL
	SELECT w.key, w.id, NULL, NULL FROM unnest(keys, ids) AS w (key, id) JOIN coord.locks AS l ON l.key = w.key AND l.id = w.id
	WHERE l.state = 'held' AND l.until > clock_timestamp() AND (w.key, w.id) NOT IN (SELECT key, id FROM free);
END
$$;

-- load: the cells in the order of the arguments, version 0 where there is none, and the clock in microseconds.
CREATE OR REPLACE FUNCTION coord.load_1(kinds text[], keys bytea[], names text[])
RETURNS TABLE (has_version bigint, has_value bytea, at bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	RETURN QUERY
	SELECT coalesce(c.version, 0), c.value, (extract(epoch FROM clock_timestamp()) * 1000000.0)::bigint
	FROM unnest(kinds, keys, names) WITH ORDINALITY AS w (kind, key, name, n)
	LEFT JOIN coord.cells AS c ON c.key = w.key AND c.kind = w.kind AND c.name = w.name
	ORDER BY n;
END
$$;

-- swap: writes a cell if it has the version (0: if there is none) and the clock is within bounds. Whether it did, and if not,
-- what the cell has; and the clock in microseconds when the request came, or when the cell was read. It fails with CO003 if it
-- has waited for the row until the clock was beyond bounds.
CREATE OR REPLACE FUNCTION coord.swap_2(
	of_kind text, of_key bytea, of_name text, had bigint, gets bigint, with_value bytea, keep interval,
	not_before timestamptz, not_after timestamptz,
	OUT swapped boolean, OUT has_version bigint, OUT has_value bytea, OUT at bigint
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	came timestamptz := clock_timestamp();
BEGIN
	-- A request that was faster than those before it comes a moment too early.
	IF came BETWEEN not_before - interval '100 milliseconds' AND not_before THEN
		PERFORM pg_sleep_for(not_before - came);
	END IF;
	IF had = 0 THEN
		INSERT INTO coord.cells (kind, key, name, version, value, until)
		SELECT of_kind, of_key, of_name, gets, with_value, clock_timestamp() + keep
		WHERE clock_timestamp() BETWEEN not_before AND not_after
		ON CONFLICT DO NOTHING;
	ELSE
		UPDATE coord.cells SET version = gets, value = with_value, until = clock_timestamp() + keep
		WHERE key = of_key AND kind = of_kind AND name = of_name AND version = had
			AND clock_timestamp() BETWEEN not_before AND not_after;
	END IF;
	swapped := FOUND;
	IF swapped AND clock_timestamp() > not_after THEN
		RAISE EXCEPTION 'coord: too late' USING ERRCODE = 'CO003';
	END IF;
	IF NOT swapped THEN
		came := clock_timestamp();
		SELECT version, value INTO has_version, has_value
		FROM coord.cells WHERE key = of_key AND kind = of_kind AND name = of_name;
	END IF;
	has_version := coalesce(has_version, 0);
	at := (extract(epoch FROM came) * 1000000.0)::bigint;
END
$$;

-- swap_all: swap of several cells, all or none. Those that get the version that they had are only compared. If one has another
-- version, or if it is too late, it fails with CO003.
CREATE OR REPLACE FUNCTION coord.swap_all_2(
	kinds text[], keys bytea[], names text[], had bigint[], gets bigint[], vals bytea[], keeps interval[],
	not_before timestamptz, not_after timestamptz
) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	has bigint;
	same boolean;
BEGIN
	FOR i IN 1 .. pg_catalog.cardinality(keys) LOOP -- in the order of the arguments, so that two of these never wait for each other
		IF gets[i] = had[i] THEN
			SELECT version INTO has FROM coord.cells
			WHERE key = keys[i] AND kind = kinds[i] AND name = names[i] FOR UPDATE;
			same := coalesce(has, 0) = had[i];
		ELSE
			SELECT s.swapped INTO same FROM coord.swap_2(
				kinds[i], keys[i], names[i], had[i], gets[i], vals[i], keeps[i], not_before, not_after) AS s;
		END IF;
		IF NOT same THEN
			RAISE EXCEPTION 'coord: another version' USING ERRCODE = 'CO003';
		END IF;
	END LOOP;
	IF clock_timestamp() > not_after THEN -- the last one was only compared
		RAISE EXCEPTION 'coord: too late' USING ERRCODE = 'CO003';
	END IF;
	RETURN (extract(epoch FROM clock_timestamp()) * 1000000.0)::bigint;
END
$$;

CREATE TABLE IF NOT EXISTS coord.version (version int PRIMARY KEY);
INSERT INTO coord.version VALUES (1) ON CONFLICT DO NOTHING;
COMMIT;
