WITH want AS (
	SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bigint[])
		AS w (kind, key, name, was, version, value, keep)
), locked AS MATERIALIZED (
	-- In one order, so that two of these never wait for each other.
	SELECT c.key, c.kind, c.name FROM {schema}.cells AS c JOIN want USING (key, kind, name)
	ORDER BY c.key, c.kind, c.name FOR UPDATE OF c
), changed AS (
	UPDATE {schema}.cells AS c
	SET version = w.version, value = w.value, until = clock_timestamp() + w.keep * interval '1 microsecond'
	FROM want AS w, locked AS k
	WHERE (k.key, k.kind, k.name) = (c.key, c.kind, c.name) AND (w.key, w.kind, w.name) = (c.key, c.kind, c.name)
		AND w.was <> 0 AND c.version = w.was
	RETURNING 1
), made AS (
	INSERT INTO {schema}.cells (kind, key, name, version, value, until)
	SELECT kind, key, name, version, value, clock_timestamp() + keep * interval '1 microsecond'
	FROM want WHERE was = 0 ORDER BY key, kind, name
	ON CONFLICT DO NOTHING
	RETURNING 1
), done AS (
	SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM made) AS n
)
-- Of several, all or none: a division by zero undoes the statement.
SELECT CASE WHEN cardinality($1::text[]) = 1 THEN n ELSE n / (n = cardinality($1::text[]))::int END FROM done
