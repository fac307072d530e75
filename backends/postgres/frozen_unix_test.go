//go:build unix

package postgres

import (
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coordgo/coord"
)

// A process that holds a lock is stopped for longer than its lease. Another takes the lock and writes. The first goes on,
// still unaware, and its transaction is refused.
func TestFrozenProcessIsRefused(t *testing.T) {
	t.Parallel()
	srv := server(t)
	admin(t, superuser(t, srv.Addr), "CREATE TABLE public.balances (written_by text); INSERT INTO public.balances VALUES ('nobody'); GRANT ALL ON public.balances TO app")
	at := urlOf(t, appUser, srv.Addr)
	b, c := open(t, at), newClient(t, at)
	frozen := startHolder(t, holder{URL: at, Keys: []string{"account"}, TTL: 2 * time.Second, Fences: true})
	t.Cleanup(frozen.end)
	held := frozen.next()
	if held == nil {
		t.Fatal("it holds nothing")
	}
	if err := frozen.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l := must[*coord.Lock](t)(c.Lock(t.Context(), "account", coord.TTL(time.Minute)))
	if l.Token() <= held.Token {
		t.Errorf("token %d after %d", l.Token(), held.Token)
	}
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		return writeFenced(t.Context(), tx, "account", l.Token(), "the next holder")
	})
	if err != nil {
		t.Errorf("the next holder: %v", err)
	}
	// It reads its order before it has looked at its lock.
	if _, err := io.WriteString(frozen.stdin, "write\n"); err != nil {
		t.Fatal(err)
	}
	if err := frozen.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if n := frozen.next(); n == nil || !n.Lost {
		t.Errorf("the process that was frozen wrote: %+v, want ErrLost", n)
	}
	var by string
	if err := b.pool.QueryRow(t.Context(), "SELECT written_by FROM balances").Scan(&by); err != nil || by != "the next holder" {
		t.Errorf("written by %s, %v", by, err)
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}
