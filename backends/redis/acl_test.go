package redis

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// TestLeastRights: coord works, as a whole, for a user with the rules of docs/operations/redis.md and no others. Each command in
// them is one that a script or the backend runs.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	page := must[[]byte](t)(os.ReadFile("../../docs/operations/redis.md"))
	if !strings.Contains(strings.Join(strings.Fields(string(page)), " "), aclRules) {
		t.Errorf("docs/operations/redis.md does not have %s", aclRules)
	}
	want := map[string]bool{}
	for _, direct := range []string{"ping", "info", "eval", "evalsha", "publish", "subscribe", "scan"} {
		want[direct] = true
	}
	for _, file := range must[[]fs.DirEntry](t)(luaFiles.ReadDir("lua")) {
		for _, m := range scriptCall.FindAllStringSubmatch(string(must[[]byte](t)(luaFiles.ReadFile("lua/"+file.Name()))), -1) {
			want[strings.ToLower(m[1])] = true
		}
	}
	for _, m := range regexp.MustCompile(`\+(\S+)`).FindAllStringSubmatch(aclRules, -1) {
		if !want[m[1]] {
			t.Errorf("%s is not run", m[1])
		}
		delete(want, m[1])
	}
	if len(want) > 0 {
		t.Errorf("%v are run, and not in the rules", want)
	}

	srv, admin := open(t)
	ctx := t.Context()
	rules := append([]any{"ACL", "SETUSER", "app", "on", ">p", "resetkeys", "resetchannels", "-@all"}, fields(aclRules)...)
	if err := admin.client.Do(ctx, rules...).Err(); err != nil {
		t.Fatal(err)
	}
	b := must[driver.Backend](t)(openURL(t, "redis://app:p@"+srv.Addr)).(*backend)
	if !slices.Equal(b.Info().Claims, Claims) {
		t.Errorf("claims %v, want %v", b.Info().Claims, Claims)
	}
	useAll(t, ctx, coordOver(t, b), b)
	for _, f := range must[[]driver.Finding](t)(b.Check(ctx)) {
		if f.Name == "permissions" && f.Level != driver.LevelOK {
			t.Errorf("%+v", f)
		}
	}
	must[map[string]string](t)(b.Describe(ctx))
	log, err := admin.client.ACLLog(ctx, 100).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range log {
		if entry.Object != "config|get" { // doctor says that it could not look
			t.Errorf("refused: %s %s, in %s", entry.Reason, entry.Object, entry.Context)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func fields(text string) (all []any) {
	for _, f := range strings.Fields(text) {
		all = append(all, f)
	}
	return all
}

// useAll makes each call of a backend, and some of a client, so that waiters are woken.
func useAll(t *testing.T, ctx context.Context, c *coord.Client, b *backend) {
	t.Helper()
	no := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, floor := range []int64{0, 1} {
		key := fmt.Sprint("lock", floor)
		r := request("a", time.Minute)
		r.Floor = floor
		no("TryLock", second(b.TryLock(ctx, key, r)))
		no("Renew", second(b.Renew(ctx, key, r)))
		no("RenewAll", b.RenewAll(ctx, []driver.Hold{{Key: key, Request: r}})[0].Err)
		w := waitFor(t, b, key, request("w", time.Minute), 1)
		no("Unlock", b.Unlock(ctx, key, r.ID))
		a := <-w
		no("Lock", a.err)
	}
	r := request("a", time.Minute)
	no("TryLock", second(b.TryLock(ctx, "broken", r)))
	no("Break", b.Break(ctx, "broken", r.ID))
	no("TryLock", second(b.TryLock(ctx, "kept", r)))
	no("UnlockAfter", b.UnlockAfter(ctx, "kept", r.ID, time.Minute))
	no("Inspect", second(b.Inspect(ctx, "kept")))
	for _, err := range b.List(ctx, "") {
		no("List", err)
	}
	no("Ping", b.Ping(ctx))
	for _, text := range []string{"10/1h burst=10", "10/1h"} {
		l := limitOf(t, text)
		ask := driver.Ask{ID: "x", Min: 4, N: 4}
		if l.Algorithm == driver.TokenBucket {
			ask.MaxDelay = time.Hour
		}
		no("TakeOne", second(b.TakeOne(ctx, text, l, ask)))
		no("Refund", b.Refund(ctx, text, l, "x", 4))
		no("Charge", second(b.Charge(ctx, text, l, 20)))
		no("Charge", second(b.Charge(ctx, text, l, -5)))
		no("TakeAll", second(b.TakeAll(ctx, []driver.Demand{{Key: text, Limit: l, N: 1}, {Key: "other", Limit: l, N: 1}})))
		no("Reset", b.Reset(ctx, text, l))
	}
	s := b.Shared()
	for _, share := range []driver.Share{permits(2, 4), reader, writer} {
		r, key := shares("a", share), fmt.Sprint(share)
		no("shared TryLock", second(s.TryLock(ctx, key, r)))
		if _, err := s.TryLock(ctx, key, shares("b", driver.Share{Mode: driver.Write, Head: true})); !errors.Is(err, driver.ErrLocked) {
			t.Errorf("%v, want ErrLocked", err)
		}
		no("shared Renew", second(s.Renew(ctx, key, r)))
		no("Holders", second(s.Holders(ctx, key)))
		no("shared Unlock", s.Unlock(ctx, key, r.ID))
	}
	held, err := c.Semaphore(1).Lock(ctx, "woken")
	no("Semaphore", err)
	woken := make(chan error, 1)
	go func() {
		l, err := c.Semaphore(1).Lock(ctx, "woken")
		if err == nil {
			err = l.Unlock(ctx)
		}
		woken <- err
	}()
	no("Unlock", held.Unlock(ctx))
	no("a second holder", <-woken)
}

// TestRefusedCommandIsNamed: the error of a script says which command its user may not run, whatever the server says.
func TestRefusedCommandIsNamed(t *testing.T) {
	t.Parallel()
	srv, admin := open(t)
	ctx := t.Context()
	for command, use := range map[string]func(b *backend) error{
		"hset":  func(b *backend) error { return second(b.Shared().TryLock(ctx, "k", shares("a", reader))) },
		"getex": func(b *backend) error { return b.Break(ctx, "k", newID("a")) },
		"set":   func(b *backend) error { return second(b.TryLock(ctx, "k", request("a", time.Minute))) },
	} {
		if err := admin.client.Do(ctx, "ACL", "SETUSER", command, "on", ">p", "~*", "&*", "+@all", "-"+command).Err(); err != nil {
			t.Fatal(err)
		}
		o := clientOptions(srv.Addr)
		o.Username, o.Password = command, "p"
		want := fmt.Sprintf("the user may not run %s: grant it with ACL SETUSER name +%s", command, command)
		if err := use(connectWith(t, o)); !errors.Is(err, driver.ErrNotSent) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
