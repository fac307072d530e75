SELECT id, token, state = 'kept', {micros(until - clock_timestamp())},
	(SELECT count(*) FROM {schema}.waiters AS w WHERE w.key = $1 AND w.until > clock_timestamp())
FROM {schema}.locks WHERE key = $1 AND state <> 'free' AND until > clock_timestamp()
