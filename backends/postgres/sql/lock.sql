-- lock: whether the lock is granted, its token, and the microseconds that are left of the lease in the way, or of the new one.
CREATE OR REPLACE FUNCTION {schema}.lock_1(
	of_key bytea, by_id text, ttl interval, waits boolean, place_lasts interval,
	OUT granted boolean, OUT with_token bigint, OUT remains bigint
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	was {schema}.locks;
	now timestamptz;
	ends timestamptz;
BEGIN
	-- A try at a lock that another one has writes nothing.
	IF NOT waits THEN
		SELECT false, 0, {micros(until - clock_timestamp())} INTO granted, with_token, remains
		FROM {schema}.locks
		WHERE key = of_key AND state <> 'free' AND NOT (state = 'held' AND id = by_id) AND until > clock_timestamp();
		IF FOUND THEN
			RETURN;
		END IF;
	END IF;

	-- Most often nobody has it, and nobody waits. The row is locked from here on, also if it stays as it is.
	INSERT INTO {schema}.locks AS l (key, id, state, token, until)
	VALUES (of_key, by_id, 'held', {now}, clock_timestamp() + ttl)
	ON CONFLICT (key) DO UPDATE
	SET id = excluded.id, state = 'held', token = greatest(l.token + 1, {now}), until = clock_timestamp() + ttl
	WHERE (l.state = 'free' OR l.until <= clock_timestamp()) AND l.queued <= clock_timestamp()
	RETURNING true, l.token, {micros(ttl)} INTO granted, with_token, remains;
	IF FOUND THEN
		RETURN;
	END IF;

	-- Every request that takes or leaves a place has the row locked, so this sees all of them.
	SELECT * INTO was FROM {schema}.locks WHERE key = of_key;
	now := clock_timestamp();
	ends := now + ttl;
	with_token := was.token;
	granted := was.state = 'held' AND was.id = by_id AND was.until > now;
	IF granted THEN -- the request is repeated
		ends := greatest(was.until, ends);
	ELSIF was.state = 'free' OR was.until <= now THEN
		granted := NOT EXISTS (
			SELECT FROM {schema}.waiters AS w
			WHERE w.key = of_key AND w.id <> by_id AND w.until > now AND w.place < coalesce(
				(SELECT place FROM {schema}.waiters WHERE key = of_key AND id = by_id), 9223372036854775807)
		);
		with_token := greatest(was.token + 1, {micros(now)});
	END IF;

	IF granted THEN
		UPDATE {schema}.locks SET id = by_id, state = 'held', token = with_token, until = ends WHERE key = of_key;
		DELETE FROM {schema}.waiters WHERE key = of_key AND (id = by_id OR until < now - interval '1 minute');
		remains := {micros(ends - now)};
		RETURN;
	END IF;
	IF waits THEN
		UPDATE {schema}.locks SET queued = greatest(queued, now + place_lasts) WHERE key = of_key;
		INSERT INTO {schema}.waiters (key, id, until) VALUES (of_key, by_id, now + place_lasts)
		ON CONFLICT (key, id) DO UPDATE SET until = excluded.until;
	END IF;
	with_token := 0;
	remains := {micros(was.until - now)};
END
$$;
