WITH asked AS (
	SELECT NOT EXISTS (
		SELECT FROM {schema}.waiters AS w
		WHERE w.key = $1 AND w.id <> $2 AND w.until > clock_timestamp() AND w.place < coalesce(
			(SELECT place FROM {schema}.waiters WHERE key = $1 AND id = $2), 9223372036854775807)
	) AS first
), lock AS (
	-- The row is locked also where it stays as it is: whoever frees it next sees that there are waiters.
	INSERT INTO {schema}.locks AS l (key, id, state, token, until)
	VALUES ($1, $2, 'held', {now}, clock_timestamp() + $3::bigint * interval '1 microsecond')
	ON CONFLICT (key) DO UPDATE SET (id, state, token, until, queued) = (
		SELECT
			CASE WHEN may THEN excluded.id ELSE l.id END,
			CASE WHEN may THEN 'held' ELSE l.state END,
			CASE WHEN may AND NOT mine THEN greatest(l.token + 1, {micros(now)}) ELSE l.token END,
			CASE WHEN mine THEN greatest(l.until, ends) WHEN may THEN ends ELSE l.until END,
			CASE WHEN may THEN l.queued ELSE greatest(l.queued, now + $5::bigint * interval '1 microsecond') END
		FROM (
			SELECT now, ends, mine, mine OR first AND (l.state = 'free' OR l.until <= now) AS may
			FROM asked, LATERAL (
				SELECT now, now + $3::bigint * interval '1 microsecond' AS ends,
					l.state = 'held' AND l.id = excluded.id AND l.until > now AS mine
				FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock
			) AS times
		) AS decided
	)
	WHERE $4 OR l.state = 'held' AND l.id = excluded.id AND l.until > clock_timestamp()
		OR (l.state = 'free' OR l.until <= clock_timestamp()) AND (SELECT first FROM asked)
	RETURNING l.state = 'held' AND l.id = $2 AND l.until > clock_timestamp() AS granted, token, until
), waits AS (
	INSERT INTO {schema}.waiters (key, id, until)
	SELECT $1, $2, clock_timestamp() + $5::bigint * interval '1 microsecond' FROM lock WHERE $4 AND NOT granted
	ON CONFLICT (key, id) DO UPDATE SET until = excluded.until
), leaves AS (
	DELETE FROM {schema}.waiters
	WHERE key = $1 AND (id = $2 OR until < clock_timestamp() - interval '1 minute') AND (SELECT granted FROM lock)
)
SELECT granted, token, {micros(until - clock_timestamp())} FROM lock
UNION ALL
SELECT false, 0, {micros(until - clock_timestamp())} FROM {schema}.locks WHERE key = $1 AND NOT EXISTS (SELECT FROM lock)
