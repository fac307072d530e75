WITH freed AS (
	UPDATE {schema}.locks SET
		state = CASE WHEN $3::bigint > 0 THEN 'kept' ELSE 'free' END,
		until = clock_timestamp() + $3::bigint * interval '1 microsecond'
	WHERE key = $1 AND id = $2 AND state = 'held' AND until > clock_timestamp()
	RETURNING state = 'free' AND queued > clock_timestamp() AS queued
), withdrawn AS (
	DELETE FROM {schema}.waiters WHERE key = $1 AND id = $2 RETURNING 1
), told AS (
	-- The first that waits, as far as this statement sees; to "" all answer.
	SELECT pg_notify($4, encode(sha256($1), 'hex') || ' ' || coalesce((
		SELECT id FROM {schema}.waiters WHERE key = $1 AND id <> $2 AND until > clock_timestamp() ORDER BY place LIMIT 1
	), ''))::text AS told
	WHERE (SELECT bool_or(queued) FROM freed) OR EXISTS (SELECT FROM withdrawn)
)
SELECT (SELECT count(*) FROM freed) + (SELECT count(*) FROM withdrawn), (SELECT count(told) FROM told)
