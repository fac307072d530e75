-- From version 1. Its clients can take nothing any more; what they hold they may renew and release, by the functions that they
-- know. Tokens go on. Places in queues are gone.
DO $upgrade$ BEGIN
	IF to_regclass('{schema}.version') IS NULL THEN
		RETURN;
	END IF;
	IF (SELECT max(version) FROM {schema}.version) <> 1 THEN
		RETURN;
	END IF;
	ALTER TABLE {schema}.locks ALTER queued DROP DEFAULT, ALTER queued TYPE boolean USING true;
	ALTER TABLE {schema}.locks ALTER queued SET DEFAULT false;
	ALTER TABLE {schema}.locks ADD ttl interval NOT NULL DEFAULT '1000 years'; -- theirs are renewed without it
	ALTER TABLE {schema}.locks ALTER ttl DROP DEFAULT;
	DELETE FROM {schema}.waiters;
	ALTER TABLE {schema}.waiters DROP CONSTRAINT waiters_pkey;
	ALTER TABLE {schema}.waiters ALTER id TYPE text COLLATE "C", ADD PRIMARY KEY (key, place), ADD UNIQUE (id, key);

	-- Those who shared a key were a text in a cell.
	INSERT INTO {schema}.shares (key, token, head, head_until, until)
	SELECT c.key, substring(convert_from(c.value, 'UTF8') FROM '^coord-shared 1 token=([0-9]+)')::bigint, '', '-infinity', clock_timestamp()
	FROM {schema}.cells AS c WHERE c.kind = 'shared';
	INSERT INTO {schema}.holders (key, broken, mode, slot, weight, bound, ttl, token, until, id)
	SELECT c.key, h[1] = 'broken', h[2], h[3]::int, h[4]::bigint, h[5]::bigint, h[6]::bigint * interval '1 microsecond', h[7]::bigint,
		timestamptz 'epoch' + h[8]::bigint * interval '1 microsecond', h[9]
	FROM {schema}.cells AS c, regexp_matches(convert_from(c.value, 'UTF8'),
		'^(held|broken) (read|write|permits) slot=([0-9]+) weight=([0-9]+) of=([0-9]+) ttl=([0-9]+) token=([0-9]+) until=([0-9]+) id=(.*)$', 'gn') AS h
	WHERE c.kind = 'shared';
	DELETE FROM {schema}.cells WHERE kind = 'shared';

	CREATE OR REPLACE FUNCTION {schema}.lock_1(
		of_key bytea, by_id text, ttl interval, waits boolean, place_lasts interval,
		OUT granted boolean, OUT with_token bigint, OUT remains bigint
	) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
	BEGIN
		RAISE EXCEPTION 'coord: the tables are of version 2: this client is too old for them: restart it with the version of coord that made them';
	END
	$$;
	CREATE OR REPLACE FUNCTION {schema}.unlock_1(of_key bytea, by_id text, kept interval) RETURNS boolean
	LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
	BEGIN
		RETURN (SELECT u.ended FROM {schema}.unlock_2(of_key, by_id, kept, false) AS u);
	END
	$$;
END $upgrade$;
