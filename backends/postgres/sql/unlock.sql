UPDATE {schema}.locks SET
	state = CASE WHEN $3::bigint > 0 THEN 'kept' ELSE 'free' END,
	until = clock_timestamp() + $3::bigint * interval '1 microsecond'
WHERE key = $1 AND id = $2 AND state = 'held' AND until > clock_timestamp()
