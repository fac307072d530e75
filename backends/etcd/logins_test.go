package etcd

import (
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// asks sends a request that the server answers with answer, and reports whether the server got it.
func (l *logins) asks(answer error) (got bool) {
	_ = l.pass(func() error {
		got = true
		return answer
	})
	return got
}

// Once a login was refused, however many ask, requests are sent after pauses, and at once after one that was answered.
func TestLoginsBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		l := &logins{}
		began, sent := time.Now(), 0
		for time.Since(began) < 59*time.Second {
			for range 10 {
				if l.asks(rpctypes.ErrAuthFailed) {
					sent++
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		if sent != 30 {
			t.Errorf("%d requests in a minute, want one each 2 s", sent)
		}
		if l.asks(rpctypes.ErrAuthFailed) {
			t.Error("a request was sent in a pause")
		}
		time.Sleep(loginPause)
		if !l.asks(rpctypes.ErrLeaderChanged) || l.asks(nil) {
			t.Error("want one request after a pause, which is no end of the refusal if the server did not look at the password")
		}
		time.Sleep(loginPause)
		for range 10 {
			if !l.asks(nil) {
				t.Error("a request was not sent though the login is good")
			}
		}
		if !l.asks(rpctypes.ErrPermissionDenied) || !l.asks(nil) {
			t.Error("a request was not sent though it takes no login")
		}
	})
}
