WITH page AS (
	SELECT key FROM {schema}.locks WHERE key > coalesce($1::bytea, '') ORDER BY key LIMIT 1000
), gone AS (
	DELETE FROM {schema}.locks WHERE ctid = ANY (ARRAY(
		SELECT l.ctid FROM {schema}.locks AS l JOIN page USING (key)
		WHERE l.until < clock_timestamp() - interval '1 hour' AND NOT EXISTS (SELECT FROM {schema}.waiters AS w WHERE w.key = l.key)
		FOR UPDATE OF l SKIP LOCKED
	))
), dead AS (
	DELETE FROM {schema}.waiters WHERE ctid = ANY (ARRAY(
		SELECT w.ctid FROM {schema}.waiters AS w JOIN page USING (key)
		WHERE w.until < clock_timestamp() - interval '1 hour' FOR UPDATE OF w SKIP LOCKED
	))
)
SELECT encode(key, 'hex') FROM page ORDER BY key DESC LIMIT 1
