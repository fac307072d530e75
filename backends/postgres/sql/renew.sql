-- renew: the holds that are left, each with its token and the microseconds of its lease. One that waits is alone, and waits
-- for its row. Otherwise those whose rows are locked are not renewed, and have no token.
CREATE OR REPLACE FUNCTION {schema}.renew_1(keys bytea[], ids text[], ttls interval[], waits boolean)
RETURNS TABLE (of_key bytea, by_id text, with_token bigint, remains bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	IF waits THEN
		-- The row is locked first: a lease that ends meanwhile is not renewed.
		PERFORM FROM {schema}.locks AS l WHERE l.key = keys[1] AND l.id = ids[1] FOR UPDATE;
		RETURN QUERY
		UPDATE {schema}.locks AS l SET until = greatest(l.until, clock_timestamp() + ttls[1])
		WHERE l.key = keys[1] AND l.id = ids[1] AND l.state = 'held' AND l.until > clock_timestamp()
		RETURNING l.key, l.id, l.token, {micros(l.until - clock_timestamp())};
		RETURN;
	END IF;

	RETURN QUERY
	WITH want AS (
		SELECT * FROM unnest(keys, ids, ttls) AS w (key, id, ttl)
	), free AS MATERIALIZED (
		SELECT l.key FROM {schema}.locks AS l WHERE l.key IN (SELECT key FROM want) FOR UPDATE SKIP LOCKED
	), renewed AS (
		UPDATE {schema}.locks AS l SET until = greatest(l.until, clock_timestamp() + w.ttl)
		FROM want AS w, free AS f
		WHERE f.key = l.key AND w.key = l.key AND w.id = l.id AND l.state = 'held' AND l.until > clock_timestamp()
		RETURNING l.key, l.id, l.token, {micros(l.until - clock_timestamp())}
	)
	SELECT * FROM renewed
	UNION ALL
	SELECT w.key, w.id, NULL, NULL FROM want AS w JOIN {schema}.locks AS l ON l.key = w.key AND l.id = w.id
	WHERE l.state = 'held' AND l.until > clock_timestamp() AND NOT EXISTS (SELECT FROM free AS f WHERE f.key = w.key);
END
$$;
