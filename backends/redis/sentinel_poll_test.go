package redis

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestPoll(t *testing.T) {
	answer := func(v view, others int, err error) sentinelAnswer {
		return sentinelAnswer{peer: &peer{addr: "s1:26379"}, view: v, others: others, err: err}
	}
	for want, answers := range map[string][]sentinelAnswer{
		"0 of 2 answer": nil,
		"2 of 2 answer, a:1 with epoch 3, b:1 with epoch 4":              {answer(view{"a:1", 3}, 1, nil), answer(view{"b:1", 4}, 1, nil)},
		"1 of 2 answer, a:1 with epoch 3; sentinel s1:26379: no route":   {answer(view{}, 0, errors.New("no route")), answer(view{"a:1", 3}, 1, nil)},
		"1 of 2 answer, a:1 with epoch 0; there are 5: give the URL the": {answer(view{"a:1", 0}, 4, nil)},
	} {
		p := poll{configured: 2}
		for _, a := range answers {
			p.add(a)
		}
		if got := p.String(); !strings.HasPrefix(got, want) || !strings.Contains(want, "give") && got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestDescribeSentinels: the sentinels and their views are shown, and what ends the grants of a master that is cut off, or that nothing does.
func TestDescribeSentinels(t *testing.T) {
	t.Parallel()
	c := testserver.RedisSentinel(t, silently)
	b := must[driver.Backend](t)(openURL(t, sentinelURL(c)))
	defer b.Close()
	describe := func() map[string]string {
		return must[map[string]string](t)(b.Describe(t.Context()))
	}
	got := describe()
	if !strings.HasPrefix(got["sentinels"], "3 of 3 answer, "+c.Leader().Addr+" with epoch 0, ") || got["topology"] != "1 master, 2 replicas" ||
		got[minReplicas] != "0" || got[maxLag] == "" {
		t.Errorf("described as %v", got)
	}
	master := direct(t, c.Leader())
	for _, tt := range []struct {
		least, lag string
		level      driver.Level
	}{{"0", "10", driver.LevelWarn}, {"1", "7", driver.LevelOK}, {"1", "0", driver.LevelWarn}} {
		if err := errors.Join(master.ConfigSet(t.Context(), minReplicas, tt.least).Err(), master.ConfigSet(t.Context(), maxLag, tt.lag).Err()); err != nil {
			t.Fatal(err)
		}
		if got := describe(); got[minReplicas] != tt.least || got[maxLag] != tt.lag {
			t.Errorf("described as %v", got)
		}
		found := must[[]driver.Finding](t)(b.Check(t.Context()))
		i := slices.IndexFunc(found, func(f driver.Finding) bool { return f.Name == minReplicas })
		if i < 0 || found[i].Level != tt.level || (found[i].Remedy == "") != (tt.level == driver.LevelOK) {
			t.Errorf("%s %s, %s %s: %+v, want %s", minReplicas, tt.least, maxLag, tt.lag, found, tt.level)
		}
	}
	one := must[driver.Backend](t)(openURL(t, "redis+sentinel://"+c.Sentinels()[0]+"/"+testserver.RedisSentinelMaster))
	defer one.Close()
	if got := must[map[string]string](t)(one.Describe(t.Context())); !strings.HasSuffix(got["sentinels"], "there are 3: give the URL the addresses of all") {
		t.Errorf("described as %v", got)
	}
}
