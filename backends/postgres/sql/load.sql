-- load: the cells in the order of the arguments, version 0 where there is none, and the clock in microseconds.
CREATE OR REPLACE FUNCTION {schema}.load_1(kinds text[], keys bytea[], names text[])
RETURNS TABLE (has_version bigint, has_value bytea, at bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	RETURN QUERY
	SELECT coalesce(c.version, 0), c.value, {now}
	FROM unnest(kinds, keys, names) WITH ORDINALITY AS w (kind, key, name, n)
	LEFT JOIN {schema}.cells AS c ON c.key = w.key AND c.kind = w.kind AND c.name = w.name
	ORDER BY n;
END
$$;
