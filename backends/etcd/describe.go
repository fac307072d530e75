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
	list, err := b.client.MemberList(call)
	if notPermitted(err) {
		return nil, nil
	}
	if err != nil {
		return nil, readOnly(call, err)
	}
	members, learners := 0, 0
	for _, m := range list.Members {
		if m.IsLearner {
			learners++
		} else {
			members++
		}
	}
	topology := "1 member"
	if members != 1 {
		topology = strconv.Itoa(members) + " members"
	}
	settings := map[string]string{"topology": topology, "shortest lease": strconv.FormatInt(b.minTTL, 10) + "s"}
	if learners > 0 {
		settings["learners"] = strconv.Itoa(learners)
	}
	return settings, nil
}
