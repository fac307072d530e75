package main

import (
	"strings"
	"testing"

	"github.com/coordgo/coord/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestOneLeaderAfterTheOther(t *testing.T) {
	exampletest.On(t, exampletest.Few, func(t *testing.T, url string) {
		said := exampletest.Kept(t, "--url", url, "--ttl", "1s")
		if strings.Count(said, "is killed with kill -9") != 2 || strings.Count(said, "took over") < 2 {
			t.Error("it does not say that two leaders were killed and another took over")
		}
	})
}

// With leases of whole seconds, and on stores where waiters are in the queue.
func TestOneLeaderAfterTheOtherInLine(t *testing.T) {
	exampletest.On(t, []string{"etcd", "zookeeper", "memcached"}, func(t *testing.T, url string) {
		exampletest.Kept(t, "--url", url)
	})
}

func TestWithoutTheLockThereAreMany(t *testing.T) {
	exampletest.Broken(t, "--without-lock")
}

func TestAudit(t *testing.T) {
	for _, tt := range []struct {
		name     string
		all      []tenure
		overlaps int
		rising   bool
	}{
		{"none", nil, 0, true},
		{"one after the other", []tenure{{"A", 1, 10, 20, 0}, {"B", 2, 21, 30, 0}}, 0, true},
		{"the first is heard last", []tenure{{"B", 2, 21, 30, 0}, {"A", 1, 10, 20, 0}}, 0, true},
		{"two at once", []tenure{{"A", 1, 10, 20, 0}, {"B", 2, 20, 30, 0}}, 1, true},
		{"one beside two", []tenure{{"A", 1, 10, 50, 0}, {"B", 2, 20, 30, 0}, {"C", 3, 40, 60, 0}}, 2, true},
		{"a token twice", []tenure{{"A", 1, 10, 20, 0}, {"B", 1, 21, 30, 0}}, 0, false},
	} {
		if overlaps, rising := audit(tt.all); overlaps != tt.overlaps || rising != tt.rising {
			t.Errorf("%s: %d, %v: want %d, %v", tt.name, overlaps, rising, tt.overlaps, tt.rising)
		}
	}
}
