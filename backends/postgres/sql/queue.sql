-- queue: take, by one that waits. If it is refused it has a place in the queue, and how many are ahead of it, 64 at most.
CREATE OR REPLACE FUNCTION {schema}.queue_1(
	of_key bytea, by_id text, lease interval, place_lasts interval,
	OUT granted boolean, OUT with_token bigint, OUT remains bigint, OUT holder text, OUT ahead bigint
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
	now timestamptz;
	mine bigint;
BEGIN
	SELECT t.granted, t.with_token, t.remains, t.holder INTO granted, with_token, remains, holder
	FROM {schema}.take_1(of_key, by_id, lease, true) AS t;
	ahead := 0;
	IF granted THEN
		RETURN;
	END IF;
	now := clock_timestamp();
	UPDATE {schema}.locks AS l SET queued = true WHERE l.key = of_key AND NOT l.queued;
	INSERT INTO {schema}.waiters AS w (key, id, until) VALUES (of_key, by_id, now + place_lasts)
	ON CONFLICT (id, key) DO UPDATE SET until = excluded.until
	RETURNING w.place INTO mine;
	SELECT count(*) INTO ahead FROM (
		SELECT FROM {schema}.waiters AS w WHERE w.key = of_key AND w.place < mine AND {waits(w.until)} LIMIT 64
	) AS few;
END
$$;

-- resume: a look of one that has a place, and a sign of life of it. It is granted the lock when the key is free and nobody is ahead.
-- Before that it touches no row but its own, and that one only when a third of its life is over. ahead is null if it has
-- no place, or has it no more.
CREATE OR REPLACE FUNCTION {schema}.resume_1(
	of_key bytea, by_id text, lease interval, place_lasts interval,
	OUT granted boolean, OUT with_token bigint, OUT remains bigint, OUT holder text, OUT ahead bigint
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
	mine {schema}.waiters;
	was {schema}.locks;
	now timestamptz;
BEGIN
	granted := false;
	with_token := 0;
	remains := 0;
	holder := '';
	SELECT * INTO mine FROM {schema}.waiters AS w WHERE w.id = by_id AND w.key IS NOT DISTINCT FROM of_key;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	now := clock_timestamp();
	SELECT count(*) INTO ahead FROM (
		SELECT FROM {schema}.waiters AS w WHERE w.key = of_key AND w.place < mine.place AND {waits(w.until)} LIMIT 64
	) AS few;
	SELECT * INTO was FROM {schema}.locks AS l WHERE l.key = of_key;
	IF NOT FOUND THEN -- somebody has emptied the table
		ahead := NULL;
		RETURN;
	END IF;
	remains := CASE WHEN was.state = 'free' THEN 0 ELSE {micros(was.until - now)} END;
	holder := CASE WHEN was.state = 'held' AND was.until > now THEN was.id ELSE '' END;

	IF ahead = 0 AND (was.state = 'free' OR was.until <= now OR was.until > now + was.ttl) THEN
		PERFORM FROM {schema}.locks AS l WHERE l.key = of_key FOR UPDATE;
		SELECT d.granted, d.with_token, d.remains, d.holder INTO granted, with_token, remains, holder
		FROM {schema}.decide_1(of_key, by_id, lease, true) AS d;
		IF granted THEN
			RETURN;
		END IF;
		PERFORM set_config('synchronous_commit', 'off', true);
		now := clock_timestamp();
	END IF;

	-- What a crash of the server takes away of this is no harm.
	IF mine.until NOT BETWEEN now + place_lasts * 0.67::float8 AND now + place_lasts THEN
		PERFORM set_config('synchronous_commit', 'off', true);
		UPDATE {schema}.waiters AS w SET until = now + place_lasts WHERE w.id = by_id AND w.key IS NOT DISTINCT FROM of_key;
	END IF;
END
$$;
