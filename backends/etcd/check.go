package etcd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
)

const (
	// statusWithin bounds the question to one member, which may hang while others answer.
	statusWithin = 2 * time.Second
	// usualQuota is the space that a member has unless --quota-backend-bytes says otherwise.
	usualQuota = 2 << 30
)

// memberStatus is what one member answered.
type memberStatus struct {
	endpoint string
	status   *clientv3.StatusResponse
	err      error
}

// Check implements driver.Operator.
func (b *backend) Check(ctx context.Context) ([]driver.Finding, error) {
	call, done, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	members := b.statuses(call)
	silent := slices.DeleteFunc(slices.Clone(members), func(m memberStatus) bool { return m.err == nil })
	answered := slices.DeleteFunc(slices.Clone(members), func(m memberStatus) bool { return m.err != nil })
	if len(answered) == 0 {
		if notPermitted(silent[0].err) {
			return []driver.Finding{{Level: driver.LevelSkip, Name: "members", Text: "not checked: the user may not ask for their status"}}, nil
		}
		return nil, readOnly(call, silent[0].err)
	}
	return []driver.Finding{
		b.checkMembers(call, silent), checkLeader(answered), checkAlarms(answered), checkSpace(answered), checkVersions(answered),
		{Level: driver.LevelSkip, Name: "compaction", Text: "not checked: etcd does not tell; use --auto-compaction-mode periodic --auto-compaction-retention 1h"},
	}, nil
}

// statuses asks all endpoints at once.
func (b *backend) statuses(ctx context.Context) []memberStatus {
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	members := make([]memberStatus, len(b.client.Endpoints()))
	var wg sync.WaitGroup
	for i, endpoint := range b.client.Endpoints() {
		wg.Go(func() {
			status, err := b.client.Status(ctx, endpoint)
			members[i] = memberStatus{endpoint, status, err}
		})
	}
	wg.Wait()
	return members
}

// checkMembers compares the addresses of the client with the members of the cluster.
func (b *backend) checkMembers(ctx context.Context, silent []memberStatus) driver.Finding {
	given := len(b.client.Endpoints())
	f := driver.Finding{Level: driver.LevelOK, Name: "members", Text: plural(given) + ", all answer"}
	if len(silent) > 0 {
		var addrs []string
		for _, m := range silent {
			addrs = append(addrs, m.endpoint)
		}
		f.Level, f.Text = driver.LevelWarn, "no answer from "+strings.Join(addrs, ", ")
		f.Remedy = "start them: a majority of the members must run"
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	if list, err := b.client.MemberList(ctx); err != nil {
		f.Text += "; the user may not list the cluster's members"
	} else if n := voters(list.Members); n > given {
		f.Level, f.Text = driver.LevelWarn, fmt.Sprintf("the URL has %d of the addresses of %s", given, plural(n))
		f.Remedy = "give the URL the address of every member"
	}
	return f
}

func voters(members []*pb.Member) (n int) {
	for _, m := range members {
		if !m.IsLearner {
			n++
		}
	}
	return n
}

func plural(members int) string {
	if members == 1 {
		return "1 member"
	}
	return strconv.Itoa(members) + " members"
}

func checkLeader(members []memberStatus) driver.Finding {
	for _, m := range members {
		if m.status.Leader == 0 {
			return driver.Finding{
				Level: driver.LevelFail, Name: "leader", Text: m.endpoint + " has no leader: it grants nothing",
				Remedy: "start a majority of the members, and check the network between them",
			}
		}
	}
	return driver.Finding{Level: driver.LevelOK, Name: "leader", Text: "every member has one"}
}

// checkAlarms looks for NOSPACE and CORRUPT, which every member tells with its status.
func checkAlarms(members []memberStatus) driver.Finding {
	for _, m := range members {
		for _, alarm := range m.status.Errors {
			switch {
			case strings.Contains(alarm, "NOSPACE"):
				return driver.Finding{
					Level: driver.LevelFail, Name: "alarms", Text: "NOSPACE: the quota is used up, and nothing new is granted",
					Remedy: "etcdctl compact, etcdctl defrag, etcdctl alarm disarm",
				}
			case strings.Contains(alarm, "CORRUPT"):
				return driver.Finding{Level: driver.LevelFail, Name: "alarms", Text: "CORRUPT: " + alarm, Remedy: "replace the member from a healthy one"}
			}
		}
	}
	return driver.Finding{Level: driver.LevelOK, Name: "alarms", Text: "none"}
}

// checkSpace compares the database with the quota.
func checkSpace(members []memberStatus) driver.Finding {
	f := driver.Finding{Level: driver.LevelOK, Name: "space"}
	var most float64
	for _, m := range members {
		quota, whose := quotaOf(m.status), "quota"
		if quota == 0 {
			quota, whose = usualQuota, "default quota (this version does not tell its own)"
		}
		share := float64(m.status.DbSize) / float64(quota)
		if share >= most {
			most = share
			f.Text = fmt.Sprintf("%.1f MB of the %s of %.1f MB", float64(m.status.DbSize)/1e6, whose, float64(quota)/1e6)
		}
	}
	if most > 0.8 {
		f.Level, f.Remedy = driver.LevelWarn, "compact and defragment, or raise --quota-backend-bytes"
	}
	return f
}

// quotaOf is 0 where the server, or the client library, is older than 3.6: neither tells it.
func quotaOf(status *clientv3.StatusResponse) int64 {
	if s, ok := any((*pb.StatusResponse)(status)).(interface{ GetDbSizeQuota() int64 }); ok {
		return s.GetDbSizeQuota()
	}
	return 0
}

// checkVersions compares the members. Two minor versions are those of an upgrade that has not ended.
func checkVersions(members []memberStatus) driver.Finding {
	minors, all := map[string]bool{}, map[string]bool{}
	for _, m := range members {
		all[m.status.Version] = true
		parts := strings.SplitN(m.status.Version, ".", 3)
		minors[strings.Join(parts[:min(2, len(parts))], ".")] = true
	}
	f := driver.Finding{Level: driver.LevelOK, Name: "versions", Text: strings.Join(slices.Sorted(maps.Keys(all)), ", ")}
	if len(minors) > 1 {
		f.Level, f.Text, f.Remedy = driver.LevelWarn, "members differ: "+f.Text, "finish the upgrade"
	}
	return f
}
