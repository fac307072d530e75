package zookeeper

import (
	"testing"
	"time"
)

func TestDescribe(t *testing.T) {
	b := connect(t, storeURL(t, shared(t).Addr))
	got, err := b.Describe(t.Context())
	if err != nil || got["topology"] != "standalone" {
		t.Errorf("described as %v, %v, want a standalone server", got, err)
	}
	if d, err := time.ParseDuration(got["session timeout"]); err != nil || d != b.timeout() {
		t.Errorf("session timeout %q, want %v", got["session timeout"], b.timeout())
	}
}
