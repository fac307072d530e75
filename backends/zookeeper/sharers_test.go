package zookeeper

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/coordgo/coord/driver"
)

// A server that lists while it applies a transaction may show the nodes of a hold in any number: of several marks the
// smallest counts, and one whose hold has gone says nothing.
func TestGroupOf(t *testing.T) {
	tag, other, head := tagOf("a"), tagOf("b"), tagOf("c")
	g := must[group](t)(groupOf("/d", []string{
		"1-" + tag + "-3-less-permits-1-2-9", "1-" + tag + "-3-hold-permits-1-5-9", "0123456789abcdef",
		"1-" + tag + "-3-less-permits-1-4-9", "1-" + tag + "-2-less-permits-0-1-9",
		"1-" + other + "-4-hold-write-0-0-0", "1-" + other + "-4-less-read-0-0-0", "1-" + head + "-head",
	}, zk.Stat{Version: 7}))
	if g.node != "/d/0123456789abcdef" || g.stat.Version != 7 || len(g.holds) != 2 || g.holds[0].share != permits(2, 9) || g.holds[1].share != reading {
		t.Errorf("%+v", g)
	}
	if _, err := g.decide("third", reading); err != driver.ErrLocked {
		t.Errorf("beside a head: %v", err)
	}
	if next, err := g.decide(head, reading); err != nil || next.Slot != 2 || g.find(other).slot != 0 {
		t.Errorf("the head: %+v, %v", next, err)
	}
	g.heads = nil
	if next, err := g.decide("third", permits(3, 5)); err != nil || next.Of != 5 {
		t.Errorf("%+v, %v", next, err)
	}
	if _, err := g.decide("third", permits(4, 5)); err != driver.ErrLocked {
		t.Errorf("6 of 5: %v", err)
	}
}

func TestParseSharer(t *testing.T) {
	tag := tagOf("a")
	for _, s := range []sharer{
		{kind: kindHead, tag: tag},
		{kind: kindHold, tag: tag, version: 1<<32 - 1, slot: maxHolders - 1, share: permits(driver.MaxPermits, driver.MaxPermits)},
		{kind: kindHold, tag: tag, slot: 3, share: reading},
		{kind: kindHold, tag: tag, version: 4, share: writing},
		{kind: kindMark, tag: tag, version: 4, share: reading},
		{kind: kindMark, tag: tag, version: 4, share: permits(2, 12)},
	} {
		got, ok := parseSharer(s.name())
		s.node = s.name()
		if !ok || got != s {
			t.Errorf("%s: %+v, %v, want %+v", s.name(), got, ok, s)
		}
	}
	for _, end := range []string{
		"", "-", "-Head", "-head-1", "-1-read-1", "-1-hold-read-01-0-0", "-1-hold-read-1-0", "-1-hold-read-1-0-0-0", "--1-hold-read-1-0-0",
		"-1-hold-read-1-1-1", "-4294967296-hold-read-1-0-0", "-1-hold-exclusive-1-0-0", "-1-hold-permits-1-1", "-1-hold-permits-1-2-1",
		"-1-hold-permits-1-0-1", "-1-hold-permits--1-1", "-1-more-permits-1-1-1", "-x-hold-read-0-0-0", "-1-head-read-0-0-0", "-0000000001",
	} {
		if s, ok := parseSharer("1-" + tag + end); ok {
			t.Errorf("%q is %+v", end, s)
		}
	}
	for _, name := range []string{"", "x", "1-", "2-" + tag + "-head", "1-" + strings.ToUpper(tag) + "-head", "1-" + tag[1:] + "-head"} {
		if s, ok := parseSharer(name); ok {
			t.Errorf("%q is %+v", name, s)
		}
	}
}

func FuzzParseSharer(f *testing.F) {
	tag := tagOf("a")
	for _, end := range []string{"-head", "-1-hold-read-2-0-0", "-0-hold-write-0-0-0", "-7-hold-permits-3-4-5", "-7-less-read-0-0-0"} {
		f.Add("1-" + tag + end)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if s, ok := parseSharer(name); ok && s.name() != name {
			t.Errorf("%q is read as %q", name, s.name())
		}
	})
}
