SELECT
	current_setting('server_version_num')::int,
	current_setting('fsync'),
	current_setting('full_page_writes'),
	current_setting('synchronous_commit'),
	current_setting('synchronous_standby_names'),
	current_setting('autovacuum'),
	current_setting('max_connections')::int,
	(SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database)::int,
	(SELECT count(*) FROM pg_stat_replication),
	coalesce((SELECT sum(n_live_tup) FROM pg_stat_user_tables WHERE schemaname = $1), 0)::bigint,
	coalesce((SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE schemaname = $1), 0)::bigint
