SELECT encode(key, 'hex'), bool_or(until > clock_timestamp()) FROM {schema}.holders WHERE key >= $1 GROUP BY key ORDER BY key LIMIT 1000
