package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/internal/testserver"
	"github.com/coordgo/coord/internal/testwait"
)

// Whoever waits when the server begins to refuse the client's role learns why, and is in nobody's way.
func TestRefusedWaiterEnds(t *testing.T) {
	t.Parallel()
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
	for what, take := range testwait.Takes() {
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
				its := func(sql string) { admin(t, root, strings.ReplaceAll(sql, "its_role", role)) }
				testwait.Refused{
					Holder: client(root), Waiter: client(at(role, "pass", role) + "&timeout=5s"), Next: client(root),
					Keeps: true,
					Entries: func() (n int) {
						const count = "SELECT (SELECT count(*) FROM coord.locks) + (SELECT count(*) FROM coord.waiters)"
						if err := look.QueryRow(t.Context(), count).Scan(&n); err != nil {
							t.Fatal(err)
						}
						return n
					},
					Refuse: func() { its(refusal.sql); its(end) },
					Again:  func() { its(end) }, // a login may have been on its way
					Says:   refusal.says,
				}.Ends(t, take)
			})
		}
	}
}
