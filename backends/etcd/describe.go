package etcd

import (
	"context"
	"strconv"
)

// Describe implements driver.Operator. What the user may not ask is left out.
func (b *backend) Describe(ctx context.Context) (map[string]string, error) {
	call, done, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	voters, learners, err := b.members(call)
	if notPermitted(err) {
		return nil, nil
	}
	if err != nil {
		return nil, readOnly(call, err)
	}
	settings := map[string]string{"topology": plural(voters), "shortest lease": strconv.FormatInt(b.minTTL, 10) + "s"}
	if learners > 0 {
		settings["learners"] = strconv.Itoa(learners)
	}
	return settings, nil
}

// members are those of the cluster, whether the client has their addresses or not.
func (b *backend) members(ctx context.Context) (voters, learners int, err error) {
	list, err := b.client.MemberList(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, m := range list.Members {
		if m.IsLearner {
			learners++
		}
	}
	return len(list.Members) - learners, learners, nil
}

func plural(members int) string {
	if members == 1 {
		return "1 member"
	}
	return strconv.Itoa(members) + " members"
}
