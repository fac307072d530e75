DELETE FROM {schema}.{table} WHERE ctid = ANY (ARRAY(
	WITH start AS ( -- every block of the table is looked at as often, also the first and the last
		SELECT floor(random() * ($1 - 1 + pg_relation_size('{schema}.{table}') / current_setting('block_size')::int))::bigint - ($1 - 1) AS block
	)
	SELECT ctid FROM {schema}.{table} AS t
	WHERE ctid >= (SELECT format('(%s,0)', greatest(block, 0))::tid FROM start)
		AND ctid < (SELECT format('(%s,0)', block + $1)::tid FROM start)
		AND {over}
	LIMIT 1000 FOR UPDATE SKIP LOCKED
))
