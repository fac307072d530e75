package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/coordgo/coord/driver"
)

// The application's queries have all connections of its pool: holds are renewed and released nevertheless, also one whose row
// somebody has locked for a while.
func TestRenewalsHaveAConnection(t *testing.T) {
	t.Parallel()
	srv := server(t)
	config := must[*pgxpool.Config](t)(pgxpool.ParseConfig(urlOf(t, appUser, srv.Addr)))
	config.MaxConns = 2
	pool := must[*pgxpool.Pool](t)(pgxpool.NewWithConfig(t.Context(), config))
	defer pool.Close()
	made := must[driver.Backend](t)(New(pool, WithTimeout(maxTimeout)))
	b := unswept(made.(*backend))
	defer b.Close()
	holds := []driver.Hold{{Key: "a", Request: request("a", time.Minute)}, {Key: "b", Request: request("b", time.Minute)}}
	for _, h := range holds {
		mustTry(t, b, h.Key, h.Request)
	}
	for range config.MaxConns { // two long queries
		tx := must[pgx.Tx](t)(pool.Begin(t.Context()))
		defer func() { _ = tx.Rollback(context.Background()) }()
	}
	for range 3 {
		for i, r := range b.RenewAll(t.Context(), holds) {
			if r.Err != nil {
				t.Errorf("Renew of %s: %v", holds[i].Key, r.Err)
			}
		}
	}
	release := rowLock(t, srv.Addr, "a")
	renewed := make(chan error, 1)
	go func() {
		_, err := b.Renew(t.Context(), "a", holds[0].Request)
		renewed <- err
	}()
	untilBlocked(t, b, 1)
	if _, err := b.Renew(t.Context(), "b", holds[1].Request); err != nil {
		t.Errorf("Renew beside one that waits for its row: %v", err)
	}
	release()
	if err := <-renewed; err != nil {
		t.Errorf("Renew of a row that was locked: %v", err)
	}
	for _, h := range holds {
		if err := b.Unlock(t.Context(), h.Key, h.ID); err != nil {
			t.Errorf("Unlock of %s: %v", h.Key, err)
		}
	}
}

// Where the server has no connection left for renewals, they share the pool.
func TestRenewalsWithoutAConnectionOfTheirOwn(t *testing.T) {
	t.Parallel()
	srv := server(t)
	b := open(t, patientURL(t, srv.Addr)+"&pool_size=1")
	r := request("a", time.Minute)
	mustTry(t, b, "k", r)
	admin(t, superuser(t, srv.Addr), "ALTER DATABASE "+b.pool.Config().ConnConfig.Database+" CONNECTION LIMIT 0") // for new sessions of this user
	if _, err := b.Renew(t.Context(), "k", r); err != nil {
		t.Errorf("Renew: %v", err)
	}
}
