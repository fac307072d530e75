SELECT id, token, {micros(least(until - clock_timestamp(), ttl))}, broken, mode, weight, bound, slot
FROM {schema}.holders WHERE key = $1 AND until > clock_timestamp() ORDER BY token
