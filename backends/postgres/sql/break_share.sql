UPDATE {schema}.holders SET broken = true WHERE key = $1 AND id = $2 AND NOT broken AND until > clock_timestamp()
