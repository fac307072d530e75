-- take: one request for a lock. Whether it is granted, its token, and the microseconds that are left of the new lease; or those
-- of the lease in the way, and who holds it, '' if nobody does. A refusal of one that waits leaves the row locked, for queue.
CREATE OR REPLACE FUNCTION {schema}.take_1(
	of_key bytea, by_id text, lease interval, waits boolean,
	OUT granted boolean, OUT with_token bigint, OUT remains bigint, OUT holder text
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	now timestamptz := clock_timestamp();
BEGIN
	-- A try at a lock that another one has writes nothing.
	IF NOT waits THEN
		SELECT false, 0, {micros(l.until - now)}, CASE WHEN l.state = 'held' THEN l.id ELSE '' END INTO granted, with_token, remains, holder
		FROM {schema}.locks AS l
		WHERE l.key = of_key AND l.state <> 'free' AND NOT (l.state = 'held' AND l.id = by_id)
			AND l.until > now AND l.until <= now + l.ttl;
		IF FOUND THEN
			RETURN;
		END IF;
	END IF;

	-- Most often nobody has it, and nobody waits. The row is locked from here on, also if it stays as it is.
	INSERT INTO {schema}.locks AS l (key, id, state, token, until, ttl)
	VALUES (of_key, by_id, 'held', {now}, clock_timestamp() + lease, lease)
	ON CONFLICT (key) DO UPDATE
	SET id = excluded.id, state = 'held', token = greatest(l.token + 1, {now}), until = clock_timestamp() + excluded.ttl, ttl = excluded.ttl
	WHERE (l.state = 'free' OR l.until <= clock_timestamp()) AND NOT l.queued
	RETURNING true, l.token, {micros(l.ttl)}, l.id INTO granted, with_token, remains, holder;
	IF NOT FOUND THEN
		SELECT * INTO granted, with_token, remains, holder FROM {schema}.decide_1(of_key, by_id, lease, false);
	END IF;
	IF NOT granted THEN
		PERFORM set_config('synchronous_commit', 'off', true); -- nothing that has to last was written
	END IF;
END
$$;
