package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const limited = `
limits: {supplier: 3/1m, bucket: 1/1s burst=2}
rules:
  - {name: orders, match: {path: /orders}, subject: user, limits: [2/1s, 5/1h], cost: 2}
serve:
  callers: [{name: all, token: "0123456789abcdef", allow: [{rights: [read, take, break]}]}]
`

// bearer is a token.
func bearer(token string) func(*http.Request) { return with("Authorization", "Bearer "+token) }

func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, all := start(t, limited), bearer("0123456789abcdef")
		const take, peek, reset = "/v1/limits/take", "/v1/limits/peek", "/v1/limits/reset"
		for _, tc := range []struct {
			path, body string
			allowed    bool
			granted    float64
		}{
			{take, `{"key":"supplier","n":2}`, true, 2},
			{take, `{"key":"supplier","n":2}`, false, 0},
			{take, `{"key":"supplier","n":2,"at_most":true}`, true, 1},
			{take, `{"key":"other","limit":"supplier"}`, true, 1},
			{take, `{"rule":"orders","subject":["ann"]}`, true, 2},
			{take, `{"rule":"orders","subject":["ann"]}`, false, 0},
			{take, `{"rule":"orders","subject":["bob"]}`, true, 2},
			{take, `{"all":[{"key":"x","limit":"supplier"},{"key":"y","limit":"supplier","n":3}]}`, true, 3},
			{take, `{"all":[{"key":"x","limit":"supplier"},{"key":"y","limit":"supplier"}]}`, false, 0},
			{take, `{"key":"x","limit":"supplier","n":2}`, true, 2}, // the denial has taken nothing
			{take, `{"key":"late","limit":"bucket","n":2,"wait_ms":10}`, true, 2},
			{take, `{"key":"late","limit":"bucket","wait_ms":10}`, false, 0},
			{take, `{"key":"late","limit":"bucket","wait_ms":2000}`, true, 1},
		} {
			a := k.post(tc.path, tc.body, all).ok(t)
			if a.body["allowed"] != tc.allowed || a.body["granted"] != tc.granted || !tc.allowed && a.body["retry_after_ms"] == nil {
				t.Errorf("%s: %v", tc.body, a.body)
			}
		}
		first := func(a answer) map[string]any { return a.ok(t).body["limits"].([]any)[0].(map[string]any) }
		if l := first(k.post(peek, `{"key":"supplier"}`, all)); l["remaining"] != 0.0 || l["retry_after_ms"] == nil {
			t.Errorf("peek: %v", l)
		}
		if l := first(k.post(reset, `{"key":"supplier"}`, all)); l["remaining"] != 3.0 {
			t.Errorf("reset: %v", l)
		}
		if l := first(k.post("/v1/limits/charge", `{"key":"supplier","n":10}`, all)); l["allowed"] != false {
			t.Errorf("charge: %v", l)
		}
		if l := first(k.post("/v1/limits/settle", `{"key":"supplier","estimated":10,"used":1}`, all)); l["remaining"] != 2.0 {
			t.Errorf("settle: %v", l)
		}
	})
}

func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, all := start(t, limited), bearer("0123456789abcdef")
		const reserve = "/v1/limits/reserve"
		if a := k.post(reserve, `{"key":"bucket","n":2}`, all).ok(t); a.body["delay_ms"] != 0.0 || a.body["id"] != nil {
			t.Errorf("permits that are there: %v", a.body)
		}
		second := k.post(reserve, `{"key":"bucket"}`, all).ok(t)
		if second.body["delay_ms"] != 1000.0 {
			t.Errorf("the next: %v", second.body)
		}
		k.mu.Lock()
		due := k.reserved[second.text("id")].due
		k.mu.Unlock()
		k.post("/v1/limits/cancel", id(second), all).ok(t)
		if due.Stop() {
			t.Error("a cancelled reservation keeps its timer")
		}
		k.post("/v1/limits/cancel", id(second), all).want(t, http.StatusNotFound, "no_such_reservation")
		if third := k.post(reserve, `{"key":"bucket"}`, all).ok(t); third.body["delay_ms"] != 1000.0 {
			t.Errorf("after a cancellation: %v", third.body)
		}
		time.Sleep(time.Minute)
		k.mu.Lock()
		left := len(k.reserved)
		k.mu.Unlock()
		if left != 0 {
			t.Errorf("%d reservations are remembered", left)
		}
		k.post(reserve, `{"key":"supplier"}`, all).want(t, http.StatusNotImplemented, "unsupported")
	})
}

func TestLimitMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, all := start(t, limited), bearer("0123456789abcdef")
		for body, code := range map[string]string{
			`{}`:                                              "invalid",
			`{"key":"nobody"}`:                                "invalid",
			`{"key":"supplier","n":0}`:                        "invalid",
			`{"key":"supplier","n":4}`:                        "exceeds_burst",
			`{"key":"supplier","rule":"orders"}`:              "invalid",
			`{"rule":"orders"}`:                               "invalid",
			`{"rule":"nobody"}`:                               "invalid",
			`{"key":"a","rate":"2/1s"}`:                       "forbidden",
			`{"key":"supplier","subject":["ann"]}`:            "invalid",
			`{"key":"supplier","limit":"bucket"}`:             "invalid",
			`{"key":"rule/orders/user/ann","limit":"bucket"}`: "invalid",
			`{"key":"limit/shared","limit":"bucket"}`:         "invalid",
			`{"key":"supplier","wait_ms":-1}`:                 "invalid",
			`{"key":"supplier","all":[{"key":"a"}]}`:          "invalid",
			`{"key":"supplier","wait_ms":9,"at_most":true}`:   "invalid",
		} {
			if a := k.post("/v1/limits/take", body, all); a.code() != code {
				t.Errorf("%s: %d %v: want %s", body, a.status, a.body, code)
			}
		}
		k.post("/v1/limits/settle", `{"rule":"orders","subject":["ann"],"estimated":9223372036854775807,"used":0}`, all).want(t, http.StatusBadRequest, "invalid")
		adhoc := start(t, "limits: {mine: 1/1s}\nserve: {ad_hoc_limits: true}")
		adhoc.post("/v1/limits/take", `{"key":"mine","rate":"2/1s"}`).want(t, http.StatusBadRequest, "invalid")
		adhoc.post("/v1/limits/take", `{"key":"a","rate":"2/1s"}`).ok(t)
		adhoc.post("/v1/limits/take", `{"key":"a","rate":"2"}`).want(t, http.StatusBadRequest, "invalid")
	})
}

// Who may take cannot reset by settling, and is not told which limits there are.
func TestLimitRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, web := start(t, called), bearer("web-web-web-web-web")
		k.post("/v1/limits/take", `{"key":"web","n":9}`, web).ok(t)
		const settle = `{"key":"web","estimated":%d,"used":%d}`
		k.post("/v1/limits/settle", fmt.Sprintf(settle, 10, 1), web).want(t, http.StatusForbidden, "forbidden")
		k.post("/v1/limits/settle", fmt.Sprintf(settle, 10, 10), web).ok(t)
		k.post("/v1/limits/settle", fmt.Sprintf(settle, 9, 8), web).ok(t)
		for body, code := range map[string]string{`{"key":"nobody"}`: "forbidden", `{"key":"web/x","limit":"nobody"}`: "invalid"} {
			if a := k.post("/v1/limits/take", body, web); a.code() != code || strings.Contains(fmt.Sprint(a.body), "other") {
				t.Errorf("%s: %v", body, a.body)
			}
		}
	})
}

// Where the store does not answer, the failure policy of a rule decides in place of that of the file.
func TestFailurePolicies(t *testing.T) {
	const rules = `
limits: {plain: 9/1s}
rules:
  - {name: soft, limits: [9/1s], failure_policy: open}
  - {name: hard, limits: [9/1s], failure_policy: closed}
`
	for policy, plain := range map[string]int{"closed": http.StatusServiceUnavailable, "open": http.StatusOK} {
		synctest.Test(t, func(t *testing.T) {
			k := start(t, "url: troubled://\nbest_effort: true\nfailure_policy: "+policy+rules)
			for body, status := range map[string]int{
				`{"rule":"soft"}`:                           http.StatusOK,
				`{"rule":"soft","n":2,"at_most":true}`:      http.StatusOK,
				`{"rule":"soft","wait_ms":1000}`:            http.StatusOK,
				`{"rule":"hard"}`:                           http.StatusServiceUnavailable,
				`{"rule":"hard","at_most":true}`:            http.StatusServiceUnavailable,
				`{"key":"plain"}`:                           plain,
				`{"all":[{"rule":"soft"},{"key":"plain"}]}`: plain,
				`{"all":[{"rule":"soft"},{"rule":"hard"}]}`: http.StatusServiceUnavailable,
				`{"all":[{"rule":"soft"},{"rule":"soft"}]}`: http.StatusOK,
				`{"all":[{"key":"plain"},{"rule":"hard"}]}`: http.StatusServiceUnavailable,
			} {
				a := k.post("/v1/limits/take", body)
				waits := strings.Contains(body, "wait_ms") && policy == "open" // which does not tell
				if a.status != status || status == http.StatusOK && (a.body["allowed"] != true || a.body["degraded"] == nil && !waits) {
					t.Errorf("%s, %s: %d %v: want %d", policy, body, a.status, a.body, status)
				}
			}
			if a := k.post("/v1/limits/take", `{"rule":"hard","wait_ms":1000}`); a.status == http.StatusOK {
				t.Errorf("%s: %v", policy, a.body)
			}
		})
	}
}
