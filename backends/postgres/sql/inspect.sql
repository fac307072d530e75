SELECT id, token, state = 'kept', {micros(least(until - clock_timestamp(), ttl))},
	(SELECT count(*) FROM {schema}.waiters AS w WHERE w.key = $1 AND w.until > clock_timestamp())
FROM {schema}.locks WHERE key = $1 AND state <> 'free' AND until > clock_timestamp()
