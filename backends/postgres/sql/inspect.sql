SELECT id, token, state = 'kept', {micros(until - clock_timestamp())}
FROM {schema}.locks WHERE key = $1 AND state <> 'free' AND until > clock_timestamp()
