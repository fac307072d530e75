package main_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// envCaller makes this program a caller of coord serve in Go. Its arguments are those of caller.py.
const envCaller = "COORD_TEST_CALLER"

// goCaller is a caller as somebody may write it who knows docs/serve.md alone.
type goCaller struct {
	url, key string
	dice     *mrand.Rand
	late     time.Duration // a mistake that is planted
}

// bootTime is the clock of callers.
func bootTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err) // every Linux has it
	}
	return time.Duration(now.Nano())
}

// call makes its holds until it is killed.
func call(args []string) {
	var seed uint64
	_, err := fmt.Sscan(args[2], &seed)
	late, lerr := time.ParseDuration(args[3])
	if err := errors.Join(err, lerr); err != nil {
		panic(err)
	}
	urls, keys := strings.Split(args[0], ","), strings.Split(args[1], ",")
	c := goCaller{dice: mrand.New(mrand.NewPCG(seed, 0)), late: late}
	for {
		c.url, c.key = urls[c.dice.IntN(len(urls))], keys[c.dice.IntN(len(keys))]
		c.hold()
	}
}

// grant is what an answer says.
type grant struct {
	ID        string `json:"id"`
	Token     string `json:"token"`
	Remaining int64  `json:"remaining_ms"`
	TTL       int64  `json:"ttl_ms"`
}

// hold takes a key, renews for a while, and releases or forgets it.
func (c *goCaller) hold() {
	var id [16]byte
	_, _ = rand.Read(id[:])
	ask := fmt.Sprintf(`{"key":%q,"ttl_ms":%d,"wait_ms":3000,"request_id":%q}`, c.key, attackTTL.Milliseconds(), hex.EncodeToString(id[:]))
	var g grant
	var sent time.Duration
	for try := 0; ; try++ {
		sent = bootTime()
		status := c.post("/v1/locks/acquire", ask, 5*time.Second, &g)
		switch waited := bootTime() - sent; {
		case status == http.StatusOK && waited < time.Duration(g.TTL)*time.Millisecond/3:
		case status != http.StatusOK && status != 0 && status != http.StatusServiceUnavailable || try == 4:
			return
		default: // what it has waited is lost to what may be believed: the same request is answered at once then
			time.Sleep(100 * time.Millisecond)
			continue
		}
		break
	}
	until := c.believe(g, sent, 0)
	ttl := time.Duration(g.TTL) * time.Millisecond
	end := sent + time.Duration(c.dice.Int64N(int64(3*attackTTL/2)))
	for now := bootTime(); now < end && now < until; now = bootTime() {
		if now < sent+ttl/3 {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		sent = now
		switch c.post("/v1/locks/renew", `{"id":"`+g.ID+`"}`, min(until-now, ttl/3), &g) {
		case http.StatusOK:
			until = c.believe(g, sent, until)
		case http.StatusConflict:
			return
		}
	}
	if now := bootTime(); now >= until || c.dice.IntN(4) == 0 {
		return // it does not release
	}
	fmt.Printf("coord-lock: %s released %s at %.9f\n", c.key, g.Token, bootTime().Seconds())
	c.post("/v1/locks/release", `{"id":"`+g.ID+`"}`, time.Second, &g)
}

// believe says what an answer allows to believe, before anything is done by it.
func (c *goCaller) believe(g grant, sent, until time.Duration) time.Duration {
	until = max(until, sent+time.Duration(g.Remaining)*time.Millisecond+c.late)
	fmt.Printf("coord-lock: %s held %s at %.9f until %.9f\n", c.key, g.Token, bootTime().Seconds(), until.Seconds())
	return until
}

// post makes a request. 0 is no answer.
func (c *goCaller) post(path, ask string, within time.Duration, into *grant) (status int) {
	client := http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Post(c.url+path, "application/json", strings.NewReader(ask))
	if err != nil {
		return 0
	}
	defer got.Body.Close()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(got.Body); err != nil {
		return 0
	}
	if got.StatusCode == http.StatusOK {
		if err := json.Unmarshal(answer.Bytes(), into); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 0
		}
	}
	return got.StatusCode
}
