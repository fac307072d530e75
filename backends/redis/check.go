package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/doctor"
)

// state is a reading, and what the user may not run.
type state struct {
	reading
	missing []string
}

// Check implements driver.Operator. On a cluster, each finding is that of the worst master.
func (b *backend) Check(ctx context.Context) ([]driver.Finding, error) {
	servers, silent, err := askAll(ctx, b, b.examine)
	if err != nil {
		return nil, err
	}
	var r doctor.Report
	for _, s := range servers {
		r.Server = s.addr
		b.judge(&r, s)
	}
	r.Server = ""
	if b.cluster != nil {
		r.Check("masters",
			doctor.Fail(len(silent) > 0, fmt.Sprint("no answer: ", errors.Join(silent...)), "start them, or wait for the failover"),
			doctor.OK(true, strconv.Itoa(len(servers))+" answer"))
	}
	if b.options.sentinels != nil {
		p := b.options.sentinels.poll()
		r.Check("sentinels",
			doctor.OK(p.healthy(), p.String()),
			doctor.Warn(true, p.String(), "start all sentinels, let them reach each other, and give the URL the addresses of all"))
	}
	return r.Findings, nil
}

// examine reads a server, and tries what a user may have been denied. An error means that it does
// not answer.
func (b *backend) examine(ctx context.Context, s server) (st state, err error) {
	if st.reading, err = b.read(ctx, s); err != nil {
		return st, err
	}
	for _, try := range []struct {
		command string
		run     func() error
	}{
		{"publish", func() error { return tryPublish(ctx, s) }},
		{"subscribe", func() error { return b.trySubscribe(ctx) }},
		{"scan", func() error {
			return s.Process(ctx, redis.NewScanCmd(ctx, s.Process, "scan", 0, "match", lockKey("probe"), "count", 1))
		}},
		{"hgetall", func() error {
			return s.Process(ctx, redis.NewMapStringStringCmd(ctx, "hgetall", sharedKey("probe")))
		}},
	} {
		if err := try.run(); refused(err) {
			st.missing = append(st.missing, try.command)
		} else if err != nil && !redirected(err) {
			return st, err
		}
	}
	return st, nil
}

// trySubscribe subscribes as a waiter does, on a connection of its own. On a cluster it does nothing:
// that would be at any of the nodes.
func (b *backend) trySubscribe(ctx context.Context) error {
	if b.cluster != nil {
		return nil
	}
	sub := b.client.Subscribe(ctx, channelPrefix+"probe")
	_, err := sub.Receive(ctx)
	return errors.Join(err, sub.Close())
}

// judge compares what a server tells with what docs/operations/redis.md asks for.
func (b *backend) judge(r *doctor.Report, s state) {
	r.Check("permissions",
		doctor.Warn(len(s.missing) > 0,
			"the user may not run "+strings.Join(s.missing, ", ")+": without publish and subscribe waiters poll, without scan nobody can list locks, without hgetall there are no shared holds",
			"ACL SETUSER … +"+strings.Join(s.missing, " +")+" resetchannels &"+channelPrefix+"*; all that coord needs: "+aclRules),
		doctor.OK(true, "the user may publish and list"))
	if s.info == nil {
		r.Check("settings", doctor.Skip(true, "the user may not run INFO"))
		return
	}
	role := s.info["role"]
	r.Check("role",
		doctor.Fail(role != "master" && role != "", "the server is a replica of "+s.info["master_host"]+":"+s.info["master_port"]+": it grants nothing",
			"give the URL the address of the master, or use redis+sentinel:// or redis+cluster://"),
		doctor.OK(true, "master"))
	s.judgeMemory(r)
	s.judgePersistence(r)
	b.judgeReplicas(r, s)
	if b.cluster != nil {
		state, slots := s.cluster["cluster_state"], s.cluster["cluster_slots_ok"]
		r.Check("cluster",
			doctor.Skip(state == "", "the user may not run CLUSTER INFO"),
			doctor.Fail(state != "ok" || slots != "16384", fmt.Sprintf("cluster_state %s, %s of 16384 slots served", state, slots), "run redis-cli --cluster check"),
			doctor.OK(true, "cluster_state ok, all slots served"))
	}
}

// evicts reports whether a server evicts keys when its memory is full.
func evicts(info doctor.Settings) bool {
	policy := info["maxmemory_policy"]
	return policy != "" && policy != "noeviction" && info["maxmemory"] != "0"
}

func (s reading) judgeMemory(r *doctor.Report) {
	policy := s.info["maxmemory_policy"]
	r.Check("eviction",
		doctor.Skip(policy == "", "the server does not tell its maxmemory-policy"),
		doctor.Fail(evicts(s.info), "maxmemory-policy "+policy+": a full server evicts locks and limits", "set maxmemory-policy noeviction"),
		doctor.Warn(policy != "noeviction", "maxmemory-policy "+policy+" evicts locks and limits as soon as maxmemory is set", "set maxmemory-policy noeviction"),
		doctor.Warn(s.info.Number("evicted_keys") > 0, s.info["evicted_keys"]+" keys were evicted since the server started",
			"give coord a server without other users, and watch evicted_keys"),
		doctor.OK(true, "maxmemory-policy noeviction"))
	used, most := s.info.Number("used_memory"), s.info.Number("maxmemory")
	share := s.info["used_memory_human"] + " of " + s.info["maxmemory_human"] + " used"
	r.Check("memory",
		doctor.OK(most == 0, s.info["used_memory_human"]+" used, maxmemory is not set"),
		doctor.Warn(used*10 > most*9, share+": a full server refuses new locks", "raise maxmemory, or remove other data"),
		doctor.OK(true, share))
}

func (s reading) judgePersistence(r *doctor.Report) {
	aof, fsync := s.info["aof_enabled"], s.config["appendfsync"]
	r.Check("persistence",
		doctor.Skip(aof == "", "the server does not tell"),
		doctor.Warn(aof != "1" && s.config["save"] != "", "appendonly no: a restart forgets the locks and limits since the last snapshot", "set appendonly yes"),
		doctor.Warn(aof != "1", "appendonly no: a restart can free all locks and forget all limits", "set appendonly yes"),
		doctor.Fail(s.info["aof_last_write_status"] == "err", "the server cannot write its append-only file", "look at its log and its disk"),
		doctor.Warn(fsync == "no", "appendfsync no: a crash of the machine forgets what the kernel has not written", "set appendfsync everysec or always"),
		doctor.OK(fsync == "", "appendonly yes"),
		doctor.OK(true, "appendonly yes, appendfsync "+fsync))
}

// judgeReplicas looks at replicas and at what keeps a master that is cut off from granting.
func (b *backend) judgeReplicas(r *doctor.Report, s state) {
	replicas, wait := s.info.Number("connected_slaves"), int64(b.options.replicas)
	takesOver := b.cluster != nil || b.options.sentinels != nil
	behind := outOfSync(s.info)
	r.Check("replicas",
		doctor.Fail(wait > replicas, fmt.Sprintf("wait_replicas %d, but %d connected: no lock is granted", wait, replicas), "start replicas, or lower wait_replicas in the URL"),
		doctor.Warn(replicas == 0 && takesOver, "none: nothing takes over from this master", "add a replica"),
		doctor.OK(replicas == 0, "none: locks wait until the server is back"),
		doctor.Warn(behind != "", behind+" is not in sync", "look at its log and at the network"),
		doctor.Warn(wait == 0, "wait_replicas is not set: a failover can forget a lock that was granted", "add wait_replicas=1 to the URL"),
		doctor.OK(true, fmt.Sprintf("%d in sync, wait_replicas %d", replicas, wait)))
	if replicas < 2 {
		return
	}
	least, lag := s.config[minReplicas], s.config[maxLag]
	r.Check(minReplicas,
		doctor.Skip(least == "", "the user may not run CONFIG GET"),
		doctor.Warn(least == "0" || lag == "0", least+", "+maxLag+" "+lag+": a master that is cut off from its replicas goes on granting",
			"set "+minReplicas+" 1 and "+maxLag+" 10"),
		doctor.OK(true, least+", "+maxLag+" "+lag))
}

// outOfSync is the address of a replica that is not, or "".
func outOfSync(info doctor.Settings) string {
	for name, value := range info {
		if _, err := strconv.Atoi(strings.TrimPrefix(name, "slave")); err != nil || strings.Contains(value, "state=online") {
			continue
		}
		ip, port, _ := strings.Cut(strings.TrimPrefix(value, "ip="), ",port=")
		port, _, _ = strings.Cut(port, ",")
		return ip + ":" + port
	}
	return ""
}
