UPDATE {schema}.locks SET state = 'kept' WHERE key = $1 AND id = $2 AND state = 'held' AND until > clock_timestamp()
