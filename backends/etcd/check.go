package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/driver/doctor"
)

const (
	// statusWithin bounds the question to one member, which may hang while others answer.
	statusWithin = 2 * time.Second
	// usualQuota is the space that a member has unless --quota-backend-bytes says otherwise.
	usualQuota = 2 << 30
)

// Check implements driver.Operator. What each member tells of itself is that of the worst one.
func (b *backend) Check(ctx context.Context) ([]driver.Finding, error) {
	call, done, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	asking, cancel := context.WithTimeout(call, statusWithin)
	defer cancel()
	members := slices.SortedFunc(b.statuses(asking), func(x, y memberStatus) int { return strings.Compare(x.endpoint, y.endpoint) })
	var silent []string
	var answered []memberStatus
	for _, m := range members {
		if m.err != nil {
			silent, err = append(silent, m.endpoint), errors.Join(err, m.err)
		} else {
			answered = append(answered, m)
		}
	}
	var r doctor.Report
	switch {
	case len(answered) > 0:
		b.checkMembers(call, &r, silent)
		for _, m := range answered {
			m.judge(&r)
		}
		checkVersions(&r, answered)
		r.Check("compaction", doctor.Skip(true, "etcd does not tell; use --auto-compaction-mode periodic --auto-compaction-retention 1h"))
	case notPermitted(err):
		r.Check("members", doctor.Skip(true, "the user may not ask for their status"))
	default:
		return nil, readOnly(call, err)
	}
	return r.Findings, nil
}

// checkMembers compares the addresses of the client with the members of the cluster.
func (b *backend) checkMembers(ctx context.Context, r *doctor.Report, silent []string) {
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	voters, _, err := b.members(ctx)
	given := len(b.client.Endpoints())
	r.Check("members",
		doctor.Warn(len(silent) > 0, "no answer from "+strings.Join(silent, ", "), "start them: a majority of the members must run"),
		doctor.OK(err != nil, plural(given)+", all answer; the user may not list the cluster's members"),
		doctor.Warn(voters > given, fmt.Sprintf("the URL has %d of the addresses of %s", given, plural(voters)), "give the URL the address of every member"),
		doctor.OK(true, plural(given)+", all answer"))
}

// judge compares what a member tells with what docs/operations/etcd.md asks for.
func (m memberStatus) judge(r *doctor.Report) {
	r.Server = m.endpoint
	defer func() { r.Server = "" }()
	r.Check("leader",
		doctor.Fail(m.status.Leader == 0, "no leader: it grants nothing", "start a majority of the members, and check the network between them"),
		doctor.OK(true, "every member has one"))
	alarms := strings.Join(m.status.Errors, "; ")
	r.Check("alarms",
		doctor.Fail(strings.Contains(alarms, "NOSPACE"), "NOSPACE: the quota is used up, and nothing new is granted", "etcdctl compact, etcdctl defrag, etcdctl alarm disarm"),
		doctor.Fail(strings.Contains(alarms, "CORRUPT"), "CORRUPT: "+alarms, "replace the member from a healthy one"),
		doctor.OK(true, "none"))
	quota, whose := quotaOf(m.status), "quota"
	if quota == 0 {
		quota, whose = usualQuota, "default quota (this version does not tell its own)"
	}
	space := fmt.Sprintf("%.1f MB of the %s of %.1f MB", float64(m.status.DbSize)/1e6, whose, float64(quota)/1e6)
	r.Check("space",
		doctor.Warn(m.status.DbSize > quota/10*8, space, "compact and defragment, or raise --quota-backend-bytes"),
		doctor.OK(true, space))
}

// quotaOf is 0 where the server, or the client library, is older than 3.6: neither tells it.
func quotaOf(status *clientv3.StatusResponse) int64 {
	if s, ok := any((*pb.StatusResponse)(status)).(interface{ GetDbSizeQuota() int64 }); ok {
		return s.GetDbSizeQuota()
	}
	return 0
}

// checkVersions compares the members. Two minor versions are those of an upgrade that has not ended.
func checkVersions(r *doctor.Report, members []memberStatus) {
	minors, all := map[string]bool{}, map[string]bool{}
	for _, m := range members {
		all[m.status.Version] = true
		parts := strings.SplitN(m.status.Version, ".", 3)
		minors[strings.Join(parts[:min(2, len(parts))], ".")] = true
	}
	versions := strings.Join(slices.Sorted(maps.Keys(all)), ", ")
	r.Check("versions",
		doctor.Warn(len(minors) > 1, "members differ: "+versions, "finish the upgrade"),
		doctor.OK(true, versions))
}
