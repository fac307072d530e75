WITH mine AS (
	INSERT INTO {schema}.locks AS l (key, id, state, token, until)
	VALUES ($1, $2, 'held', {now}, clock_timestamp() + $3::bigint * interval '1 microsecond')
	ON CONFLICT (key) DO UPDATE SET
		id = excluded.id,
		state = 'held',
		token = CASE WHEN l.state = 'held' AND l.id = excluded.id AND l.until > clock_timestamp()
			THEN l.token ELSE greatest(l.token + 1, {now}) END,
		until = greatest(l.until, clock_timestamp() + $3::bigint * interval '1 microsecond')
	WHERE l.state = 'free' OR l.until <= clock_timestamp() OR l.state = 'held' AND l.id = excluded.id
	RETURNING token, until
)
SELECT true, token, {micros(until - clock_timestamp())} FROM mine
UNION ALL
SELECT false, 0, {micros(until - clock_timestamp())} FROM {schema}.locks WHERE key = $1 AND NOT EXISTS (SELECT FROM mine)
