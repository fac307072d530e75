package redis

// aclRules are all that a user of coord needs on one server, for ACL SETUSER; docs/operations/redis.md has them too. Redis asks
// for the commands of a script one by one.
const aclRules = "~coord:* &" + channelPrefix + "* " +
	"+ping +info +eval +evalsha +publish +subscribe +scan +time " +
	"+get +getex +getrange +set +setrange +del +exists +pttl +pexpire " +
	"+hget +hset +hdel +hlen +hmget +hgetall " +
	"+zadd +zcard +zincrby +zmscore +zrange +zrangebyscore +zrem +zscore"
