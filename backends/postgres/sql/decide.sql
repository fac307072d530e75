-- decide: what take gives, of a row that is locked. Whoever takes, leaves or is granted the key has it locked first, so this sees
-- all of them. The clock is read after the wait for the row. A place is a right that ends with its row: if placed is set,
-- only who has one is granted.
CREATE OR REPLACE FUNCTION {schema}.decide_1(
	of_key bytea, by_id text, lease interval, placed boolean,
	OUT granted boolean, OUT with_token bigint, OUT remains bigint, OUT holder text
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
	was {schema}.locks;
	now timestamptz;
	mine bigint;
BEGIN
	SELECT * INTO was FROM {schema}.locks AS l WHERE l.key = of_key;
	now := clock_timestamp();
	granted := false;
	with_token := 0;
	remains := 0;
	holder := '';
	IF was.until > now + was.ttl THEN -- the clock was set back
		was.until := now + was.ttl;
		UPDATE {schema}.locks AS l SET until = was.until WHERE l.key = of_key;
	END IF;

	IF was.state = 'held' AND was.id = by_id AND was.until > now THEN -- the request is repeated
		granted := true;
		with_token := was.token;
		holder := by_id;
		IF was.until < now + lease THEN
			was.until := now + lease;
			UPDATE {schema}.locks AS l SET until = was.until, ttl = lease WHERE l.key = of_key;
		END IF;
		remains := {micros(was.until - now)};
		RETURN;
	END IF;

	IF was.state <> 'free' AND was.until > now THEN
		remains := {micros(was.until - now)};
		holder := CASE WHEN was.state = 'held' THEN was.id ELSE '' END;
		RETURN;
	END IF;

	SELECT w.place INTO mine FROM {schema}.waiters AS w WHERE w.id = by_id AND w.key IS NOT DISTINCT FROM of_key;
	IF EXISTS (
		SELECT FROM {schema}.waiters AS w WHERE w.key = of_key AND w.id <> by_id AND {waits(w.until)}
			AND w.place < coalesce(mine, 9223372036854775807)
	) THEN
		RETURN;
	END IF;

	DELETE FROM {schema}.waiters AS w WHERE w.id = by_id AND w.key IS NOT DISTINCT FROM of_key;
	IF placed AND NOT FOUND THEN
		RETURN;
	END IF;
	DELETE FROM {schema}.waiters AS w WHERE w.key = of_key AND w.place < mine AND w.until < now - interval '1 minute';
	granted := true;
	with_token := greatest(was.token + 1, {micros(now)});
	remains := {micros(lease)};
	holder := by_id;
	UPDATE {schema}.locks AS l
	SET id = by_id, state = 'held', token = with_token, until = now + lease, ttl = lease,
		queued = EXISTS (SELECT FROM {schema}.waiters AS w WHERE w.key = of_key)
	WHERE l.key = of_key;
END
$$;
