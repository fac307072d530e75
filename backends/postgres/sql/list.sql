SELECT encode(key, 'hex'), state <> 'free' AND until > clock_timestamp() FROM {schema}.locks WHERE key >= $1 ORDER BY key LIMIT 1000
