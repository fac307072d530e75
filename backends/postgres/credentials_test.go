package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
)

// Whoever waits when the server begins to refuse the client's role learns why, and is in nobody's way.
func TestRefusedWaiterEnds(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second // is to end, and has more than time-outs in it
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
	refusals := map[string]struct{ sql, says string }{
		"password": {"ALTER ROLE its_role PASSWORD 'other'", "wrong user or password"},
		"login":    {"ALTER ROLE its_role NOLOGIN", "no such user"},
		"rights":   {"REVOKE ALL ON ALL TABLES IN SCHEMA coord FROM its_role", "permission denied"},
	}
	const end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'its_role'"
	srv := testserver.Postgres(t, testserver.WithPassword("s3cret"))
	at := func(user, password, database string) string {
		return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", user, password, srv.Addr, database)
	}
	for what, take := range takes {
		for why, refusal := range refusals {
			if why != "password" && (what == "fair" || what == "write") {
				continue // as lock and permit
			}
			t.Run(what+", "+why, func(t *testing.T) {
				t.Parallel()
				role := "r_" + what + "_" + why // and its database
				root := at(testserver.PostgresUser, "s3cret", role)
				admin(t, at(testserver.PostgresUser, "s3cret", "postgres"), "CREATE DATABASE "+role)
				admin(t, root, schema(t)+"CREATE ROLE "+role+" LOGIN PASSWORD 'pass';"+
					"GRANT USAGE ON SCHEMA coord TO "+role+";"+
					"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA coord TO "+role)
				look := must[*pgx.Conn](t)(pgx.Connect(t.Context(), root))
				defer look.Close(context.Background())
				client := func(url string) *coord.Client {
					c := must[*coord.Client](t)(coord.New(openIn(t, url)))
					t.Cleanup(func() { c.Close() })
					return c
				}
				holder, waiter, waits := client(at(role, "pass", role)), client(at(role, "pass", role)), make(chan error, 1)
				if err := take(t.Context(), holder); err != nil {
					t.Fatal(err)
				}
				rows := func() (n int) {
					const count = "SELECT (SELECT count(*) FROM coord.locks) + (SELECT count(*) FROM coord.waiters)"
					if err := look.QueryRow(t.Context(), count).Scan(&n); err != nil {
						t.Fatal(err)
					}
					return n
				}
				before := rows()
				go func() { waits <- take(context.Background(), waiter) }()
				for start := time.Now(); rows() == before; time.Sleep(time.Millisecond) {
					if time.Since(start) > hung {
						t.Fatal("the waiter has no place in the queue")
					}
				}
				admin(t, root, strings.ReplaceAll(refusal.sql, "its_role", role))
				late := time.After(hung)
				for ended := false; !ended; {
					admin(t, root, strings.ReplaceAll(end, "its_role", role)) // a login may have been on its way
					select {
					case err := <-waits:
						// Who shares a key loses its place and queues again, and may have had only time-outs since.
						shares := what == "permit" || what == "write"
						if !errors.Is(err, coord.ErrUnavailable) || !contains(err, refusal.says) && !(shares && errors.Is(err, context.DeadlineExceeded)) {
							t.Errorf("%v: want that the store is unavailable, and %q", err, refusal.says)
						}
						ended = true
					case <-time.After(100 * time.Millisecond):
					case <-late:
						t.Fatalf("still waiting after %v", hung)
					}
				}
				bound, stop := context.WithTimeout(t.Context(), hung)
				defer stop()
				if err := take(bound, client(root)); err != nil {
					t.Errorf("who may use the server is not granted the key: %v", err)
				}
			})
		}
	}
}
