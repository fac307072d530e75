WITH want AS (
	SELECT * FROM unnest($1::bytea[], $2::text[], $3::bigint[]) AS w (key, id, ttl)
), locked AS MATERIALIZED (
	-- In one order, so that two of these never wait for each other.
	SELECT key FROM {schema}.locks WHERE key = ANY ($1::bytea[]) ORDER BY key FOR UPDATE
)
UPDATE {schema}.locks AS l SET until = CASE WHEN l.until > clock_timestamp()
	THEN greatest(l.until, clock_timestamp() + w.ttl * interval '1 microsecond') ELSE l.until END
FROM want AS w, locked AS k
WHERE k.key = l.key AND w.key = l.key AND w.id = l.id AND l.state = 'held' AND l.until > clock_timestamp()
RETURNING l.key, l.id, l.token, {micros(l.until - clock_timestamp())}
