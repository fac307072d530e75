-- A cell stays some seconds longer: a decision that took it for absent may be on its way, see tooLate.
WITH page AS (
	SELECT key, kind, name FROM {schema}.cells
	WHERE (key, kind, name) > (coalesce($1::bytea, ''), $2::text, $3::text) ORDER BY key, kind, name LIMIT 1000
), gone AS (
	DELETE FROM {schema}.cells WHERE ctid = ANY (ARRAY(
		SELECT c.ctid FROM {schema}.cells AS c JOIN page USING (key, kind, name)
		WHERE c.until < clock_timestamp() - interval '10 seconds' FOR UPDATE OF c SKIP LOCKED
	))
)
SELECT encode(key, 'hex'), kind, name FROM page ORDER BY key DESC, kind DESC, name DESC LIMIT 1
