package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// checked are the settings that Check reads of each server, beside INFO.
var checked = []string{"appendfsync", "save", "min-replicas-to-write", "min-replicas-max-lag"}

// state is what a server tells of itself. What it does not tell is not in info or config.
type state struct {
	addr    string // of a master of a cluster
	info    map[string]string
	config  map[string]string
	cluster map[string]string // of CLUSTER INFO
	refused []string          // commands that the user may not run
}

// Check implements driver.Operator. On a cluster, each finding is that of the worst master.
func (b *backend) Check(ctx context.Context) ([]driver.Finding, error) {
	var mu sync.Mutex
	var states []state
	silent, err := b.census(ctx, func(ctx context.Context, s server) error {
		st, err := b.stateOf(ctx, s)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		states = append(states, st)
		return nil
	})
	if err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	var all []driver.Finding
	for _, st := range states {
		for _, f := range b.judge(st) {
			if st.addr != "" && f.Level != driver.LevelOK {
				f.Text = st.addr + ": " + f.Text
			}
			all = append(all, f)
		}
	}
	if b.cluster != nil {
		all = append(all, checkMasters(len(states), silent))
	}
	if b.options.sentinels != nil {
		all = append(all, checkSentinels(b.options.sentinels.poll()))
	}
	return worst(all), nil
}

// worst keeps the worst finding of each name, in the order of the first.
func worst(all []driver.Finding) (kept []driver.Finding) {
	rank := map[driver.Level]int{driver.LevelOK: 0, driver.LevelSkip: 1, driver.LevelWarn: 2, driver.LevelFail: 3}
	for _, f := range all {
		i := slices.IndexFunc(kept, func(k driver.Finding) bool { return k.Name == f.Name })
		if i < 0 {
			kept = append(kept, f)
		} else if rank[f.Level] > rank[kept[i].Level] {
			kept[i] = f
		}
	}
	return kept
}

// stateOf asks one server. An error means that it does not answer.
func (b *backend) stateOf(ctx context.Context, s server) (st state, err error) {
	st = state{addr: s.addr, config: map[string]string{}}
	refused := func(command string, err error) error {
		if redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "ERR unknown") {
			st.refused = append(st.refused, command)
			return nil
		}
		return err
	}
	if st.info, err = info(ctx, s, "memory", "replication", "persistence", "stats"); err != nil {
		if err = refused("info", err); err != nil {
			return st, err
		}
	}
	for _, name := range checked {
		cmd := redis.NewMapStringStringCmd(ctx, "config", "get", name)
		if err := refused("config|get", s.Process(ctx, cmd)); err != nil {
			return st, err
		}
		if value, ok := cmd.Val()[name]; ok {
			st.config[name] = value
		}
	}
	if b.cluster != nil {
		cmd := redis.NewStringCmd(ctx, "cluster", "info")
		if err := refused("cluster|info", s.Process(ctx, cmd)); err != nil {
			return st, err
		}
		st.cluster = parseInfo(cmd.Val())
	}
	for command, cmd := range map[string]redis.Cmder{
		"publish": redis.NewIntCmd(ctx, "publish", channelPrefix+"probe", ""),
		"scan":    redis.NewScanCmd(ctx, s.Process, "scan", 0, "match", lockKey("probe"), "count", 1),
		"hgetall": redis.NewMapStringStringCmd(ctx, "hgetall", cmp.Or(s.key, lockKey("probe"))+":shared"),
	} {
		if err := refused(command, s.Process(ctx, cmd)); err != nil {
			return st, err
		}
	}
	if b.cluster == nil {
		err = refused("subscribe", b.trySubscribe(ctx))
	}
	return st, err
}

// trySubscribe subscribes as a waiter does, on a connection of its own.
func (b *backend) trySubscribe(ctx context.Context) error {
	sub := b.client.Subscribe(ctx, channelPrefix+"probe")
	_, err := sub.Receive(ctx)
	return errors.Join(err, sub.Close())
}

// judge compares what a server tells with what docs/operations.md asks for.
func (b *backend) judge(st state) []driver.Finding {
	found := []driver.Finding{checkPermissions(st)}
	if st.info == nil {
		return append(found, driver.Finding{Level: driver.LevelSkip, Name: "settings", Text: "not checked: the user may not run INFO"})
	}
	found = append(found, checkRole(st), checkEviction(st), checkMemory(st), checkPersistence(st))
	found = append(found, b.checkReplicas(st)...)
	if st.cluster != nil {
		found = append(found, checkCluster(st))
	}
	return found
}

func checkPermissions(st state) driver.Finding {
	f := driver.Finding{Level: driver.LevelOK, Name: "permissions", Text: "the user may publish and list"}
	missing := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(st.refused))), func(c string) bool {
		return !slices.Contains([]string{"publish", "subscribe", "scan", "hgetall"}, c)
	})
	if len(missing) > 0 {
		f.Level, f.Text = driver.LevelWarn, "the user may not run "+strings.Join(missing, ", ")+": without publish and subscribe waiters poll, without scan nobody can list locks, without hgetall there are no shared holds"
		f.Remedy = "ACL SETUSER … +" + strings.Join(missing, " +") + " resetchannels &" + channelPrefix + "*; all that coord needs: " + aclRules
	}
	return f
}

func checkRole(st state) driver.Finding {
	f := driver.Finding{Level: driver.LevelOK, Name: "role", Text: "master"}
	if role := st.info["role"]; role != "master" && role != "" {
		f.Level, f.Text = driver.LevelFail, "the server is a replica of "+st.info["master_host"]+":"+st.info["master_port"]+": it grants nothing"
		f.Remedy = "give the URL the address of the master, or use redis+sentinel:// or redis+cluster://"
	}
	return f
}

func checkEviction(st state) driver.Finding {
	const remedy = "set maxmemory-policy noeviction"
	policy := cmp.Or(st.info["maxmemory_policy"], "unknown")
	f := driver.Finding{Level: driver.LevelOK, Name: "eviction", Text: "maxmemory-policy " + policy}
	switch {
	case policy == "unknown":
		f.Level, f.Text = driver.LevelSkip, "not checked: the server does not tell its maxmemory-policy"
	case policy != "noeviction" && st.info["maxmemory"] != "0":
		f.Level, f.Text, f.Remedy = driver.LevelFail, f.Text+": a full server evicts locks and limits", remedy
	case policy != "noeviction":
		f.Level, f.Text, f.Remedy = driver.LevelWarn, f.Text+" evicts locks and limits as soon as maxmemory is set", remedy
	case number(st.info["evicted_keys"]) > 0:
		f.Level, f.Text = driver.LevelWarn, st.info["evicted_keys"]+" keys were evicted since the server started"
		f.Remedy = "give coord a server without other users, and watch evicted_keys"
	}
	return f
}

func checkMemory(st state) driver.Finding {
	used, most := number(st.info["used_memory"]), number(st.info["maxmemory"])
	f := driver.Finding{Level: driver.LevelOK, Name: "memory", Text: st.info["used_memory_human"] + " used, maxmemory is not set"}
	if most == 0 {
		return f
	}
	f.Text = fmt.Sprintf("%s of %s used", st.info["used_memory_human"], st.info["maxmemory_human"])
	if used*10 > most*9 {
		f.Level, f.Text, f.Remedy = driver.LevelWarn, f.Text+": a full server refuses new locks", "raise maxmemory, or remove other data"
	}
	return f
}

func checkPersistence(st state) driver.Finding {
	f := driver.Finding{Level: driver.LevelOK, Name: "persistence", Text: "appendonly yes"}
	fsync, told := st.config["appendfsync"]
	switch {
	case st.info["aof_enabled"] == "":
		f.Level, f.Text = driver.LevelSkip, "not checked: the server does not tell"
	case st.info["aof_enabled"] == "1" && st.info["aof_last_write_status"] == "err":
		f.Level, f.Text, f.Remedy = driver.LevelFail, "the server cannot write its append-only file", "look at its log and its disk"
	case st.info["aof_enabled"] == "1" && fsync == "no":
		f.Level, f.Text, f.Remedy = driver.LevelWarn, "appendfsync no: a crash of the machine forgets what the kernel has not written", "set appendfsync everysec or always"
	case st.info["aof_enabled"] == "1" && told:
		f.Text += ", appendfsync " + fsync
	case st.info["aof_enabled"] == "1":
	case st.config["save"] != "":
		f.Level, f.Text, f.Remedy = driver.LevelWarn, "appendonly no: a restart forgets the locks and limits since the last snapshot", "set appendonly yes"
	default:
		f.Level, f.Text, f.Remedy = driver.LevelWarn, "appendonly no: a restart can free all locks and forget all limits", "set appendonly yes"
	}
	return f
}

// checkReplicas looks at replicas and at what keeps a master that is cut off from granting.
func (b *backend) checkReplicas(st state) []driver.Finding {
	replicas, wait := number(st.info["connected_slaves"]), int64(b.options.replicas)
	f := driver.Finding{Level: driver.LevelOK, Name: "replicas", Text: fmt.Sprintf("%d in sync, wait_replicas %d", replicas, wait)}
	switch {
	case wait > replicas:
		f.Level, f.Text = driver.LevelFail, fmt.Sprintf("wait_replicas %d, but %d connected: no lock is granted", wait, replicas)
		f.Remedy = "start replicas, or lower wait_replicas in the URL"
	case replicas == 0 && (b.cluster != nil || b.options.sentinels != nil):
		f.Level, f.Text, f.Remedy = driver.LevelWarn, "none: nothing takes over from this master", "add a replica"
	case replicas == 0:
		f.Text = "none: locks wait until the server is back"
	case outOfSync(st.info) != "":
		f.Level, f.Text, f.Remedy = driver.LevelWarn, outOfSync(st.info)+" is not in sync", "look at its log and at the network"
	case wait == 0:
		f.Level, f.Text = driver.LevelWarn, "wait_replicas is not set: a failover can forget a lock that was granted"
		f.Remedy = "add wait_replicas=1 to the URL"
	}
	found := []driver.Finding{f}
	if replicas >= 2 {
		found = append(found, checkMinReplicas(st))
	}
	return found
}

func checkMinReplicas(st state) driver.Finding {
	const least, lag = "min-replicas-to-write", "min-replicas-max-lag"
	f := driver.Finding{Level: driver.LevelOK, Name: least, Text: st.config[least] + ", " + lag + " " + st.config[lag]}
	switch {
	case st.config[least] == "":
		f.Level, f.Text = driver.LevelSkip, "not checked: the user may not run CONFIG GET"
	case st.config[least] == "0" || st.config[lag] == "0":
		f.Level, f.Text = driver.LevelWarn, f.Text+": a master that is cut off from its replicas goes on granting"
		f.Remedy = "set " + least + " 1 and " + lag + " 10"
	}
	return f
}

// outOfSync is the address of a replica that is not, or "".
func outOfSync(info map[string]string) string {
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

func checkCluster(st state) driver.Finding {
	f := driver.Finding{Level: driver.LevelOK, Name: "cluster", Text: "cluster_state ok, all slots served"}
	switch {
	case st.cluster["cluster_state"] == "":
		f.Level, f.Text = driver.LevelSkip, "not checked: the user may not run CLUSTER INFO"
	case st.cluster["cluster_state"] != "ok" || st.cluster["cluster_slots_ok"] != "16384":
		f.Level, f.Text = driver.LevelFail, fmt.Sprintf("cluster_state %s, %s of 16384 slots served", st.cluster["cluster_state"], st.cluster["cluster_slots_ok"])
		f.Remedy = "run redis-cli --cluster check"
	}
	return f
}

// checkMasters looks at how many masters of a cluster answer.
func checkMasters(answer int, silent []error) driver.Finding {
	if len(silent) > 0 {
		return driver.Finding{Level: driver.LevelFail, Name: "masters", Text: "no answer: " + errors.Join(silent...).Error(), Remedy: "start them, or wait for the failover"}
	}
	return driver.Finding{Level: driver.LevelOK, Name: "masters", Text: strconv.Itoa(answer) + " answer"}
}

func checkSentinels(p poll) driver.Finding {
	f := driver.Finding{Level: driver.LevelOK, Name: "sentinels", Text: p.String()}
	if !p.healthy() {
		f.Level, f.Remedy = driver.LevelWarn, "start all sentinels, let them reach each other, and give the URL the addresses of all"
	}
	return f
}

// number is 0 of what is no number.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
