package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordgo/coord"
)

const (
	acquirePath = "/v1/locks/acquire"
	renewPath   = "/v1/locks/renew"
	releasePath = "/v1/locks/release"
)

func token(t *testing.T, a answer) int64 {
	t.Helper()
	n, err := strconv.ParseInt(a.text("token"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A hold from its beginning to its end, and each request again.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		const mine = `{"key":"job","ttl_ms":10000,"request_id":"r1-0123456789abc"}`
		first := k.post(acquirePath, mine).ok(t)
		if left := first.left(); left > 10*time.Second || left < 9700*time.Millisecond {
			t.Errorf("%v left of 10s", left)
		}
		if again := k.post(acquirePath, mine).ok(t); again.text("id") != first.text("id") || token(t, again) != token(t, first) {
			t.Errorf("a repeated request got %v, the first %v", again.body, first.body)
		}
		k.post(acquirePath, `{"key":"job","ttl_ms":20000,"request_id":"r1-0123456789abc"}`).want(t, http.StatusBadRequest, "request_id_used")
		k.post(acquirePath, `{"key":"job","ttl_ms":10000,"wait_ms":5,"request_id":"r1-0123456789abc"}`).ok(t)
		k.post(acquirePath, `{"key":"other","request_id":"12345678"}`).want(t, http.StatusBadRequest, "invalid")
		taken := k.post(acquirePath, `{"key":"job"}`).want(t, http.StatusLocked, "locked")
		if e := taken.body["error"].(map[string]any); e["key"] != "job" || e["message"] != "someone else holds the key" {
			t.Errorf("the refusal says %v", e)
		}
		for range 10 {
			time.Sleep(6 * time.Second)
			k.post(renewPath, id(first)).ok(t)
		}
		for range 2 {
			k.post(releasePath, id(first)).ok(t)
		}
		k.post(renewPath, id(first)).want(t, http.StatusConflict, "not_held")
		k.post(acquirePath, mine).want(t, http.StatusConflict, "not_held")
		if next := k.post(acquirePath, `{"key":"job"}`).ok(t); token(t, next) <= token(t, first) {
			t.Errorf("token %d after %d", token(t, next), token(t, first))
		}
		k.post(releasePath, `{"id":"nobody"}`).want(t, http.StatusConflict, "not_held")
	})
}

// Who does not renew loses the hold, and knows before anybody else is granted.
func TestHoldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		began := time.Now()
		first := k.post(acquirePath, `{"key":"job","ttl_ms":10000}`).ok(t)
		second := k.post(acquirePath, `{"key":"job","ttl_ms":10000,"wait_ms":60000}`).ok(t)
		if took := time.Since(began); took <= first.left() || took > 10*time.Second {
			t.Errorf("the key was granted again after %v, when the first had %v", took, first.left())
		}
		k.post(renewPath, id(first)).want(t, http.StatusConflict, "lost")
		k.post(releasePath, id(first)).want(t, http.StatusConflict, "lost")
		k.post(renewPath, id(second)).ok(t)
	})
}

// The time of a hold never goes back, and every answer is within the lease that the store has granted.
func TestPromises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		a := k.post(acquirePath, `{"key":"job","ttl_ms":9000}`).ok(t)
		until := time.Now().Add(a.left())
		for range 200 {
			time.Sleep(70 * time.Millisecond)
			a = k.post(renewPath, id(a)).ok(t)
			now := time.Now().Add(a.left())
			if now.Before(until.Add(-time.Millisecond)) || a.left() < 5500*time.Millisecond { // two thirds, less both margins
				t.Fatalf("until %v, then until %v, with %v left", until, now, a.left())
			}
			until = now
			seen := k.post("/v1/locks/inspect", `{"key":"job"}`).ok(t)
			lease := seen.body["holders"].([]any)[0].(map[string]any)["left_ms"].(float64)
			if float64(a.left().Milliseconds()) > lease-90 {
				t.Fatalf("%v left of a lease of %vms", a.left(), lease)
			}
		}
	})
}

// Several keys are held all or none.
func TestSeveralKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		b := k.post(acquirePath, `{"key":"b"}`).ok(t)
		k.post(acquirePath, `{"keys":["c","a","b"]}`).want(t, http.StatusLocked, "locked")
		k.post(acquirePath, `{"keys":["c","a","b"],"wait_ms":1000}`).want(t, http.StatusLocked, "locked")
		a := k.post(acquirePath, `{"key":"a"}`).ok(t)
		k.post(releasePath, id(a)).ok(t)
		k.post(releasePath, id(b)).ok(t)
		all := k.post(acquirePath, `{"keys":["c","a","b","a"]}`).ok(t)
		if got := fmt.Sprint(all.body["locks"]); len(all.body["locks"].([]any)) != 3 || all.body["token"] != nil {
			t.Errorf("held: %v", got)
		}
		listed := k.post("/v1/locks/list", `{}`).ok(t)
		if len(listed.body["keys"].([]any)) != 3 {
			t.Errorf("listed: %v", listed.body)
		}
		k.post(releasePath, id(all)).ok(t)
		if listed := k.post("/v1/locks/list", `{}`).ok(t); len(listed.body["keys"].([]any)) != 0 {
			t.Errorf("listed: %v", listed.body)
		}
	})
}

// A list has a bound in bytes, too.
func TestListBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		long := strings.Repeat("x", 1000)
		for i := range maxBody/1004 + 1 {
			if _, err := k.client.TryLock(t.Context(), fmt.Sprintf("%04d%s", i, long), coord.NoRenew()); err != nil {
				t.Fatal(err)
			}
		}
		if all := k.post("/v1/locks/list", `{}`).ok(t); len(all.body["keys"].([]any)) != maxBody/1004 || all.body["more"] != true {
			t.Errorf("%d keys, more: %v", len(all.body["keys"].([]any)), all.body["more"])
		}
	})
}

// Readers, a writer and permits.
func TestModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		one := k.post(acquirePath, `{"key":"k","mode":"read","name":"ann"}`).ok(t)
		two := k.post(acquirePath, `{"key":"k","mode":"read"}`).ok(t)
		k.post(acquirePath, `{"key":"k","mode":"write"}`).want(t, http.StatusLocked, "locked")
		k.post(acquirePath, `{"key":"k","mode":"permits","permits":3,"weight":2}`).ok(t)
		k.post(acquirePath, `{"key":"k","mode":"permits","permits":3,"weight":2}`).want(t, http.StatusLocked, "locked")
		k.post(acquirePath, `{"key":"k","mode":"permits","permits":3,"weight":4}`).want(t, http.StatusBadRequest, "exceeds_bound")
		seen := k.post("/v1/locks/inspect", `{"key":"k"}`).ok(t).body["holders"].([]any)
		if len(seen) != 3 || seen[0].(map[string]any)["name"] != "ann" || seen[2].(map[string]any)["weight"] != 2.0 {
			t.Errorf("holders: %v", seen)
		}
		k.post(releasePath, id(one)).ok(t)
		k.post(releasePath, id(two)).ok(t)
		time.Sleep(time.Second) // the writer's place in the queue ends
		k.post(acquirePath, `{"key":"k","mode":"write"}`).ok(t)
		for _, bad := range []string{
			`{}`, `{"key":"a","keys":["b"]}`, `{"key":"k","mode":"both"}`, `{"key":"k","permits":2}`, `{"key":"k","mode":"permits"}`,
			`{"key":"k","wait_ms":60001}`, `{"key":"k","wait_ms":-1}`, `{"key":"k","ttl_ms":-1}`, `{"key":"k","name":"a b"}`, `{"key":"a\u0000b"}`,
		} {
			k.post(acquirePath, bad).want(t, http.StatusBadRequest, "invalid")
		}
	})
}

// A hold that an operator breaks is lost by its next renewal, and its key stays taken for as long as its holder may
// believe.
func TestBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, `serve: {callers: [{name: ops, token: "0123456789abcdef", allow: [{rights: [read, lock, break]}]}]}`)
		ops := with("Authorization", "Bearer 0123456789abcdef")
		began := time.Now()
		a := k.post(acquirePath, `{"key":"job","ttl_ms":9000}`, ops).ok(t)
		holder := k.post("/v1/locks/inspect", `{"key":"job"}`, ops).ok(t).body["holders"].([]any)[0].(map[string]any)
		if holder["name"] != "ops" {
			t.Errorf("the holder is %v", holder["name"])
		}
		k.post("/v1/locks/break", fmt.Sprintf(`{"key":"job","id":%q}`, holder["id"]), ops).ok(t)
		time.Sleep(4 * time.Second) // the server has renewed
		k.post(renewPath, id(a), ops).want(t, http.StatusConflict, "lost")
		k.post(acquirePath, `{"key":"job","wait_ms":60000}`, ops).ok(t)
		if took := time.Since(began); took <= a.left() {
			t.Errorf("granted again after %v, when the first had %v", took, a.left())
		}
		k.post(renewPath, id(a), ops).want(t, http.StatusConflict, "lost")
	})
}

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// Who leaves while it waits holds nothing, whether its request has an id or not.
func TestWaiterLeaves(t *testing.T) {
	for _, body := range []string{`{"key":"job","wait_ms":60000}`, `{"key":"job","wait_ms":60000,"request_id":"r-0123456789abcd"}`} {
		synctest.Test(t, func(t *testing.T) {
			k := start(t, "")
			first := k.post(acquirePath, `{"key":"job"}`).ok(t)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan answer)
			go func() { done <- k.postIn(ctx, acquirePath, body) }()
			time.Sleep(time.Second)
			cancel()
			<-done
			k.post(releasePath, id(first)).ok(t)
			synctest.Wait()
			if k.live != 0 {
				t.Errorf("%d are live", k.live)
			}
			k.post(acquirePath, body).ok(t)
		})
	}
}

// A request that is repeated while the first one waits gets the same hold.
func TestRepeatedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		first := k.post(acquirePath, `{"key":"job"}`).ok(t)
		const body = `{"key":"job","wait_ms":60000,"request_id":"r-0123456789abcd"}`
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan answer, 2)
		go func() { done <- k.postIn(ctx, acquirePath, body) }()
		time.Sleep(time.Second)
		go func() { done <- k.post(acquirePath, body) }()
		time.Sleep(time.Second)
		cancel() // the first connection breaks
		<-done
		k.post(releasePath, id(first)).ok(t)
		got := (<-done).ok(t)
		if again := k.post(acquirePath, body).ok(t); again.text("id") != got.text("id") {
			t.Errorf("%v, then %v", got.body, again.body)
		}
	})
}

// A server that drains renews nothing, and is done when the last remote holder knows that it holds nothing.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		kept := k.post(acquirePath, `{"key":"kept","ttl_ms":9000}`).ok(t)
		until := time.Now().Add(kept.left())
		given := k.post(acquirePath, `{"key":"given"}`).ok(t)
		waiter := make(chan answer)
		go func() { waiter <- k.post(acquirePath, `{"key":"kept","wait_ms":60000}`) }()
		time.Sleep(time.Second)
		drained := make(chan time.Time)
		go func() {
			if err := k.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			drained <- time.Now()
		}()
		synctest.Wait()
		(<-waiter).want(t, http.StatusServiceUnavailable, "closed")
		k.post(acquirePath, `{"key":"new"}`).want(t, http.StatusServiceUnavailable, "closed")
		k.post(releasePath, id(given)).ok(t)
		time.Sleep(3 * time.Second)
		a := k.post(renewPath, id(kept)).ok(t)
		if d := until.Sub(time.Now().Add(a.left())); d < 0 || d > time.Millisecond || a.body["draining"] != true {
			t.Errorf("a renewal while draining: %v, %v before the end", a.body, d)
		}
		if at := <-drained; at.Before(until) || at.After(until.Add(time.Second)) {
			t.Errorf("drained %v after the hold's end", at.Sub(until))
		}
	})
}

// A server that is not given the time to drain says so.
func TestDrainBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "")
		k.post(acquirePath, `{"key":"kept","ttl_ms":9000}`).ok(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := k.Drain(ctx); err == nil {
			t.Error("drained, with a hold that lives")
		}
	})
}

// A hold that ends by max_hold says so, to who renews it to the end and to who releases it then.
func TestMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := start(t, "lock: {ttl: 9s, max_hold: 20s}")
		a, began := k.post(acquirePath, `{"key":"job"}`).ok(t), time.Now()
		for renewed := a; renewed.status == http.StatusOK; renewed = k.post(renewPath, id(a)) {
			if time.Now().Add(renewed.left()).After(began.Add(20 * time.Second)) {
				t.Fatalf("%v left, %v after it began", renewed.left(), time.Since(began))
			}
			time.Sleep(time.Second)
		}
		k.post(renewPath, id(a)).want(t, http.StatusConflict, "max_hold")
		k.post(releasePath, id(a)).want(t, http.StatusConflict, "max_hold")
		next := k.post(acquirePath, `{"key":"job","wait_ms":60000}`).ok(t)
		time.Sleep(10 * time.Second) // nobody renews it, which is another end
		k.post(renewPath, id(next)).want(t, http.StatusConflict, "lost")
	})
}

// Operators see which caller holds a key, whatever it calls itself.
func TestHolderNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, web := start(t, called), bearer("web-web-web-web-web")
		for name, shown := range map[string]string{"": "web", "nightly": "web/nightly", strings.Repeat("x", 60): "web/" + strings.Repeat("x", 60)} {
			a := k.post(acquirePath, fmt.Sprintf(`{"key":"web","name":%q}`, name), web).ok(t)
			holders := k.post("/v1/locks/inspect", `{"key":"web"}`, web).ok(t).body["holders"].([]any)
			if got := holders[0].(map[string]any)["name"]; got != shown {
				t.Errorf("the holder is %v, want %s", got, shown)
			}
			k.post(releasePath, id(a), web).ok(t)
		}
		for _, name := range []string{"a b", "\n", strings.Repeat("x", 61)} {
			k.post(acquirePath, fmt.Sprintf(`{"key":"web","name":%q}`, name), web).want(t, http.StatusBadRequest, "invalid")
		}
	})
}
