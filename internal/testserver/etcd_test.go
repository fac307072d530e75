package testserver

import (
	"encoding/base64"
	"strings"
	"testing"
)

func etcdPut(t *testing.T, s *Server, key, value string) {
	t.Helper()
	b64 := base64.StdEncoding.EncodeToString
	if _, err := s.etcdCall("kv/put", map[string]string{"key": b64([]byte(key)), "value": b64([]byte(value))}); err != nil {
		t.Fatal(err)
	}
}

// etcdHas reports whether key is there.
func etcdHas(t *testing.T, s *Server, key string) bool {
	t.Helper()
	reply, err := s.etcdCall("kv/range", map[string]string{"key": base64.StdEncoding.EncodeToString([]byte(key))})
	if err != nil {
		t.Fatal(err)
	}
	return reply["count"] != nil
}

func TestEtcd(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, durable := range []bool{true, false} {
		var opts []Option
		if durable {
			opts = append(opts, Durable())
		} else {
			opts = append(opts, WithFlags()) // one of its own, not the environment's
		}
		s := Etcd(t, opts...)
		etcdPut(t, s, "k", "v")
		s.Restart()
		if got := etcdHas(t, s, "k"); got != durable {
			t.Errorf("durable %v: after a restart the key is there: %v", durable, got)
		}
		etcdPut(t, s, "k", "v")
		s.LoseData()
		if etcdHas(t, s, "k") {
			t.Errorf("durable %v: the key is there after the loss of the data", durable)
		}
	}
}

func TestEtcdPassword(t *testing.T) {
	t.Parallel() // it mostly waits
	s := Etcd(t, WithPassword("secret"), Durable())
	s.Restart()
	if _, err := s.etcdCall("kv/range", map[string]string{"key": "aw=="}); err == nil || !strings.Contains(err.Error(), "user name is empty") {
		t.Errorf("without a password: %v", err)
	}
	s.AddUser("app", "other", "app/")
	if _, err := s.etcdCall("auth/authenticate", map[string]string{"name": "app", "password": "other"}); err != nil {
		t.Error(err)
	}
}

func TestEtcdTLS(t *testing.T) {
	t.Parallel() // it mostly waits
	s := Etcd(t, WithTLS())
	etcdPut(t, s, "k", "v")
	if !etcdHas(t, s, "k") {
		t.Error("no key")
	}
}

func TestNightlyEtcdCluster(t *testing.T) {
	t.Parallel() // it mostly waits
	c := EtcdCluster(t)
	leader := c.Leader()
	etcdPut(t, leader, "k", "v")
	leader.Kill()
	next := c.Leader()
	if next == leader {
		t.Fatal("a killed node leads")
	}
	if !etcdHas(t, next, "k") {
		t.Error("the new leader has lost the key")
	}
	leader.Start()
	leader.AwaitReady()
}
