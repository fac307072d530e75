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
		RETURN {schema}.unlock_2(of_key, by_id, kept);
	END
	$$;
END $upgrade$;
