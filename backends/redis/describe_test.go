package redis

import (
	"testing"

	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	srv := testserver.Redis(t)
	b := connect(t, srv.Addr)
	got, err := b.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got["topology"] != "1 master, 0 replicas" || got["maxmemory-policy"] == "" || got["appendonly"] == "" {
		t.Errorf("described as %v, want one master without replicas, its policy and persistence", got)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Describe(t.Context()); err != driver.ErrClosed {
		t.Errorf("after Close: %v, %v, want ErrClosed", got, err)
	}
}

func TestNightlyDescribeCluster(t *testing.T) {
	t.Parallel()
	c := testserver.RedisCluster(t, 0, silently)
	got, err := backendOver(t, clusterClient(c, nil)).Describe(t.Context())
	if err != nil || got["topology"] != "3 masters, 0 replicas" {
		t.Errorf("described as %v, %v, want three masters", got, err)
	}
}
