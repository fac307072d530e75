-- renew: the holds that are left, each with its token and the microseconds of its lease. One that waits is alone, and waits
-- for its row. Otherwise those whose rows are locked are not renewed, and have no token.
CREATE OR REPLACE FUNCTION {schema}.renew_3(keys bytea[], ids text[], leases interval[], waits boolean)
RETURNS TABLE (of_key bytea, by_id text, with_token bigint, remains bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	now timestamptz := clock_timestamp();
BEGIN
	IF waits THEN
		-- The row is locked first: a lease that ends meanwhile is not renewed.
		PERFORM FROM {schema}.locks AS l WHERE l.key = keys[1] AND l.id = ids[1] FOR UPDATE;
		now := clock_timestamp();
		RETURN QUERY
		UPDATE {schema}.locks AS l
		SET until = now + greatest(least(l.until - now, l.ttl), leases[1]), ttl = greatest(least(l.until - now, l.ttl), leases[1])
		WHERE l.key = keys[1] AND l.id = ids[1] AND l.state = 'held' AND l.until > now
		RETURNING l.key, l.id, l.token, {micros(l.ttl)};
		RETURN;
	END IF;

	-- The server plans for a few holds, whatever their number: two of these lists are not joined, which would take the
	-- square of that.
	RETURN QUERY
	WITH free AS MATERIALIZED (
		SELECT w.key, w.id, w.lease FROM unnest(keys, ids, leases) AS w (key, id, lease) JOIN {schema}.locks AS l ON l.key = w.key
		FOR UPDATE OF l SKIP LOCKED
	), renewed AS (
		UPDATE {schema}.locks AS l
		SET until = now + greatest(least(l.until - now, l.ttl), f.lease), ttl = greatest(least(l.until - now, l.ttl), f.lease)
		FROM free AS f
		WHERE l.key = f.key AND l.id = f.id AND l.state = 'held' AND l.until > clock_timestamp()
		RETURNING l.key, l.id, l.token, {micros(l.ttl)}
	)
	SELECT * FROM renewed
	UNION ALL
	SELECT w.key, w.id, NULL, NULL FROM unnest(keys, ids) AS w (key, id) JOIN {schema}.locks AS l ON l.key = w.key AND l.id = w.id
	WHERE l.state = 'held' AND l.until > clock_timestamp() AND (w.key, w.id) NOT IN (SELECT key, id FROM free);
END
$$;
