package redis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// Whoever waits when the server begins to refuse the client's user learns why, and is in nobody's way.
func TestRefusedWaiterEnds(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second // is to end
	takes := map[string]func(ctx context.Context, c *coord.Client) error{
		"lock": func(ctx context.Context, c *coord.Client) error {
			_, err := c.Lock(ctx, "k", coord.TTL(ttl))
			return err
		},
		"fair": func(ctx context.Context, c *coord.Client) error {
			_, err := c.Lock(ctx, "k", coord.TTL(ttl), coord.Fair())
			return err
		},
		"permit": func(ctx context.Context, c *coord.Client) error {
			_, err := c.Semaphore(1).Lock(ctx, "k", coord.TTL(ttl))
			return err
		},
		"write": func(ctx context.Context, c *coord.Client) error {
			_, err := c.ReadWrite().Write().Lock(ctx, "k", coord.TTL(ttl))
			return err
		},
	}
	refusals := map[string]struct {
		commands [][]any
		says     string
	}{
		"password": {[][]any{{"ACL", "SETUSER", "app", "resetpass", ">other"}, {"CLIENT", "KILL", "USER", "app"}}, "wrong user or password"},
		"deleted":  {[][]any{{"ACL", "DELUSER", "app"}}, "wrong user or password"},
		"rights":   {[][]any{{"ACL", "SETUSER", "app", "-@all"}}, "may not"},
	}
	for what, take := range takes {
		for why, refusal := range refusals {
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
				if err := take(t.Context(), client("app:pass@")); err != nil {
					t.Fatal(err)
				}
				waiter, waits := client("app:pass@"), make(chan error, 1)
				before := root.DBSize(t.Context()).Val()
				go func() { waits <- take(context.Background(), waiter) }()
				eventually(t, "the waiter to have its place", func() bool { return root.DBSize(t.Context()).Val() > before })
				do(refusal.commands...)
				select {
				case err := <-waits:
					if !errors.Is(err, coord.ErrUnavailable) || !strings.Contains(err.Error(), refusal.says) {
						t.Errorf("%v: want that the store is unavailable, and %q", err, refusal.says)
					}
				case <-time.After(hung):
					t.Fatalf("still waiting after %v", hung)
				}
				ctx, cancel := context.WithTimeout(t.Context(), hung)
				defer cancel()
				if err := take(ctx, client("")); err != nil {
					t.Errorf("who may use the server is not granted the key: %v", err)
				}
			})
		}
	}
}
