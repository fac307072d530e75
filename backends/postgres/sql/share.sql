-- share: one request to share a key: as a reader, a writer, or with permits of so many. Whether it is granted, the hold's token, what
-- is left of its lease, its slot, and the bound on permits that counts; or for how long at most nothing changes by itself. The head of
-- a queue that is refused keeps others away for a second. A slot of -1: there are too many holders.
--
-- Whoever wants to be granted the key has its row in shares locked first, and renewals do not. So a lease that has ended is
-- removed before anything is counted: that waits for a renewal on its way, and what is left is live.
CREATE OR REPLACE FUNCTION {schema}.share_1(
	of_key bytea, by_id text, lease interval, as_mode text, with_weight bigint, of_all bigint, is_head boolean,
	OUT granted boolean, OUT with_token bigint, OUT remains bigint, OUT has_slot int, OUT bound bigint
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	was {schema}.shares;
	mine {schema}.holders;
	now timestamptz;
	ends timestamptz;
	live bigint;
	writers bigint;
	taken numeric;
	least_bound bigint;
	first_end timestamptz;
	headed boolean;
BEGIN
	INSERT INTO {schema}.shares AS s (key, token, head, head_until, until)
	VALUES (of_key, 0, '', '-infinity', clock_timestamp())
	ON CONFLICT (key) DO UPDATE SET token = s.token WHERE false;
	SELECT * INTO was FROM {schema}.shares AS s WHERE s.key = of_key;
	now := clock_timestamp();
	ends := now + lease;
	has_slot := 0;
	bound := of_all;
	UPDATE {schema}.holders AS h SET until = clock_timestamp() + h.ttl
	WHERE h.key = of_key AND h.until > clock_timestamp() + h.ttl; -- the clock was set back
	DELETE FROM {schema}.holders AS h WHERE h.key = of_key AND h.until <= now;

	SELECT * INTO mine FROM {schema}.holders AS h WHERE h.key = of_key AND h.id = by_id AND NOT h.broken;
	granted := FOUND;
	IF granted THEN -- the request is repeated
		UPDATE {schema}.holders AS h SET until = ends, ttl = lease WHERE h.key = of_key AND h.id = by_id AND h.until < ends;
		with_token := mine.token;
		remains := {micros(greatest(mine.until, ends) - now)};
		has_slot := mine.slot;
		bound := mine.bound;
		RETURN;
	END IF;

	SELECT count(*), count(*) FILTER (WHERE h.mode = 'write'), coalesce(sum(h.weight) FILTER (WHERE h.mode = 'permits'), 0::numeric),
		min(h.bound) FILTER (WHERE h.mode = 'permits'), min(h.until)
	INTO live, writers, taken, least_bound, first_end
	FROM {schema}.holders AS h WHERE h.key = of_key;
	bound := least(bound, least_bound);
	headed := was.head <> '' AND was.head <> by_id AND was.head_until BETWEEN now AND now + interval '1 second';
	granted := NOT headed AND CASE as_mode
		WHEN 'write' THEN live = 0
		WHEN 'read' THEN writers = 0
		ELSE writers = 0 AND taken + with_weight::numeric <= bound::numeric
	END;
	with_token := 0;
	IF granted AND live >= {maxholders} THEN
		granted := false;
		has_slot := -1;
	END IF;

	IF NOT granted THEN
		PERFORM set_config('synchronous_commit', 'off', true); -- nothing that has to last was written
		IF headed THEN
			first_end := least(first_end, was.head_until);
		ELSIF is_head AND has_slot = 0 AND (was.head <> by_id OR was.head_until NOT BETWEEN now + interval '700 milliseconds' AND now + interval '1 second') THEN
			UPDATE {schema}.shares AS s SET head = by_id, head_until = now + interval '1 second' WHERE s.key = of_key;
		END IF;
		remains := {micros(coalesce(first_end, now) - now)};
		RETURN;
	END IF;

	SELECT coalesce(min(ranked.n), live)::int INTO has_slot
	FROM (SELECT h.slot, row_number() OVER (ORDER BY h.slot) - 1::bigint AS n FROM {schema}.holders AS h WHERE h.key = of_key) AS ranked
	WHERE ranked.slot::bigint <> ranked.n;
	with_token := greatest(was.token + 1, {micros(now)});
	remains := {micros(lease)};
	INSERT INTO {schema}.holders (key, id, token, mode, weight, bound, slot, broken, until, ttl)
	VALUES (of_key, by_id, with_token, as_mode, with_weight, of_all, has_slot, false, ends, lease);
	UPDATE {schema}.shares AS s
	SET token = with_token, until = now, head = ''
	WHERE s.key = of_key;
END
$$;

-- unshare: whether there was a hold of the id, or also one that was broken, or it was the head. A request of the id that waits for the row of the key goes first.
CREATE OR REPLACE FUNCTION {schema}.unshare_1(of_key bytea, by_id text, also_broken boolean) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	FOR i IN 1 .. 2 LOOP
		DELETE FROM {schema}.holders AS h WHERE h.key = of_key AND h.id = by_id AND (also_broken OR NOT h.broken) AND h.until > clock_timestamp();
		IF FOUND THEN
			RETURN true;
		END IF;
		IF i = 1 THEN
			PERFORM FROM {schema}.shares AS s WHERE s.key = of_key FOR UPDATE;
		END IF;
	END LOOP;
	UPDATE {schema}.shares AS s SET head = '' WHERE s.key = of_key AND s.head = by_id AND s.head_until > clock_timestamp();
	RETURN FOUND;
END
$$;

-- renew_shares: renew of those who share keys. A hold becomes smaller if less is asked for.
CREATE OR REPLACE FUNCTION {schema}.renew_shares_1(keys bytea[], ids text[], leases interval[], modes text[], weights bigint[], waits boolean)
RETURNS TABLE (of_key bytea, by_id text, with_token bigint, remains bigint, has_slot int, bound bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	now timestamptz := clock_timestamp();
BEGIN
	IF waits THEN
		PERFORM FROM {schema}.holders AS h WHERE h.key = keys[1] AND h.id = ids[1] AND NOT h.broken FOR UPDATE;
		now := clock_timestamp();
	END IF;
	RETURN QUERY
	WITH free AS MATERIALIZED (
		SELECT w.key, w.id, w.lease, w.mode, w.weight
		FROM unnest(keys, ids, leases, modes, weights) AS w (key, id, lease, mode, weight)
		JOIN {schema}.holders AS h ON h.key = w.key AND h.id = w.id AND NOT h.broken
		FOR UPDATE OF h SKIP LOCKED
	), renewed AS (
		UPDATE {schema}.holders AS h
		SET until = now + greatest(least(h.until - now, h.ttl), f.lease), ttl = greatest(least(h.until - now, h.ttl), f.lease),
			mode = CASE WHEN h.mode = 'write' AND f.mode = 'read' THEN 'read' ELSE h.mode END,
			weight = CASE WHEN h.mode = 'permits' AND f.mode = 'permits' AND f.weight > 0::bigint THEN least(h.weight, f.weight) ELSE h.weight END
		FROM free AS f
		WHERE h.key = f.key AND h.id = f.id AND NOT h.broken AND h.until > clock_timestamp()
		RETURNING h.key, h.id, h.token, {micros(h.ttl)}, h.slot, h.bound
	)
	SELECT * FROM renewed
	UNION ALL
	SELECT w.key, w.id, NULL, NULL, NULL, NULL
	FROM unnest(keys, ids) AS w (key, id) JOIN {schema}.holders AS h ON h.key = w.key AND h.id = w.id
	WHERE NOT h.broken AND h.until > clock_timestamp() AND (w.key, w.id) NOT IN (SELECT key, id FROM free);
END
$$;
