SELECT
	version(),
	current_setting('server_version'),
	current_setting('server_version_num')::int,
	current_setting('synchronous_commit'),
	current_setting('client_min_messages'),
	to_regclass($1) IS NOT NULL,
	(SELECT count(DISTINCT proname) FROM pg_catalog.pg_proc WHERE pronamespace = to_regnamespace($2)::oid AND proname = ANY ($3::text[])),
	EXISTS (SELECT FROM pg_get_keywords() WHERE word = $2 AND catcode IN ('R', 'T')),
	CASE WHEN to_regnamespace($2) IS NULL THEN has_database_privilege(current_database(), 'CREATE')
		ELSE has_schema_privilege(to_regnamespace($2)::oid, 'CREATE') END
