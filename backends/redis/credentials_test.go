package redis

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
	"github.com/coordgo/coord/internal/testwait"
)

// Whoever waits when the server begins to refuse the client's user learns why, and is in nobody's way.
func TestRefusedWaiterEnds(t *testing.T) {
	t.Parallel()
	refusals := map[string]struct {
		commands [][]any
		says     string
	}{
		"password": {[][]any{{"ACL", "SETUSER", "app", "resetpass", ">other"}, {"CLIENT", "KILL", "USER", "app"}}, "wrong user or password"},
		"deleted":  {[][]any{{"ACL", "DELUSER", "app"}}, "wrong user or password"},
		"rights":   {[][]any{{"ACL", "SETUSER", "app", "-@all"}}, "may not"},
	}
	for what, take := range testwait.Takes() {
		for why, refusal := range refusals {
			if why != "password" && (what == "fair" || what == "write") {
				continue // as lock and permit
			}
			t.Run(what+", "+why, func(t *testing.T) {
				t.Parallel()
				srv := testserver.Redis(t, silently)
				root := redis.NewClient(clientOptions(srv.Addr))
				defer root.Close()
				do := func(commands ...[]any) {
					for _, args := range commands {
						if err := root.Do(t.Context(), args...).Err(); err != nil {
							t.Fatal(err)
						}
					}
				}
				do([]any{"ACL", "SETUSER", "app", "on", ">pass", "~*", "&*", "+@all"})
				client := func(user string) *coord.Client {
					c := must[*coord.Client](t)(coord.Open(t.Context(), "redis://"+user+srv.Addr))
					t.Cleanup(func() { c.Close() })
					return c
				}
				testwait.Refused{
					Holder: client(""), Waiter: client("app:pass@"), Next: client(""),
					Keeps:   true,
					Entries: func() int { return int(root.DBSize(t.Context()).Val()) },
					Refuse:  func() { do(refusal.commands...) },
					Says:    refusal.says,
				}.Ends(t, take)
			})
		}
	}
}
