package postgres

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
)

// holderEnv makes this program one that holds locks, until it is killed or its standard input ends.
const holderEnv = "COORD_POSTGRES_HOLDER"

// holder says what such a program does.
type holder struct {
	URL  string
	Keys []string
	TTL  time.Duration
	// Fences: it takes the first key once, and writes with its token when it is told to.
	Fences bool
}

// note is what it tells of a hold, a line each. Times are nanoseconds of the clock that all processes of a machine share.
type note struct {
	Key             string
	Token           coord.Token
	Sent, Got, Till int64
	Left            bool   // it gives it back now, or knows that it is lost
	Lost            bool   // that
	Wrote           string // of one that fences: the error
}

func init() {
	text := os.Getenv(holderEnv)
	if text == "" {
		return
	}
	var h holder
	err := json.Unmarshal([]byte(text), &h)
	if err == nil {
		err = h.run(bufio.NewReader(os.Stdin))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func tell(n note) {
	text, err := json.Marshal(n)
	if err == nil {
		_, err = fmt.Println(string(text))
	}
	if err != nil {
		os.Exit(1) // nobody reads it
	}
}

func (h holder) run(orders *bufio.Reader) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	var c *coord.Client
	for {
		var err error
		if c, err = coord.Open(ctx, h.URL, coord.WithLogger(slog.New(slog.DiscardHandler))); err == nil {
			break
		}
		if !errors.Is(err, driver.ErrNotSent) && !errors.Is(err, coord.ErrUnavailable) {
			return err
		}
		pause(10 * time.Millisecond) // the server is being restarted
	}
	if h.Fences {
		return h.fence(ctx, c, orders)
	}
	go func() {
		for {
			h.hold(ctx, c, h.Keys[rand.N(len(h.Keys))])
		}
	}()
	_, err := io.Copy(io.Discard, orders)
	return err
}

// hold takes a key once.
func (h holder) hold(ctx context.Context, c *coord.Client, key string) {
	n := note{Key: key, Sent: time.Now().UnixNano()}
	l, err := c.Lock(ctx, key, coord.TTL(h.TTL))
	if err != nil {
		pause(rand.N(20 * time.Millisecond)) // backoff in an outage
		return
	}
	n.Token, n.Got, n.Till = l.Token(), time.Now().UnixNano(), certain(l)
	tell(n)
	select {
	case <-time.After(rand.N(h.TTL * 3 / 2)):
	case <-l.Done():
	}
	n.Left, n.Till, n.Lost = true, min(time.Now().UnixNano(), certain(l)), l.Err() != nil
	tell(n)
	_ = l.Unlock(ctx) // if it fails, the lease ends
}

// certain is until when a hold is certain, as far as is known now.
func certain(l *coord.Lock) int64 { return time.Now().Add(time.Until(l.Deadline())).UnixNano() }

// fence takes a key, and writes in a transaction when it is told to.
func (h holder) fence(ctx context.Context, c *coord.Client, orders *bufio.Reader) error {
	l, err := c.Lock(ctx, h.Keys[0], coord.TTL(h.TTL))
	if err != nil {
		return err
	}
	tell(note{Token: l.Token()})
	if _, err := orders.ReadString('\n'); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, h.URL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return writeFenced(ctx, tx, h.Keys[0], l.Token(), "frozen") })
	tell(note{Wrote: fmt.Sprint(err), Lost: errors.Is(err, coord.ErrLost)})
	return nil
}

// writeFenced writes as the holder of a token.
func writeFenced(ctx context.Context, tx pgx.Tx, key string, token coord.Token, by string) error {
	if err := Fence(ctx, tx, key, token); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "UPDATE balances SET written_by = $1", by)
	return err
}

// holding is such a process.
type holding struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func startHolder(t *testing.T, h holder) *holding {
	t.Helper()
	text := must[[]byte](t)(json.Marshal(h))
	cmd := exec.Command(must[string](t)(os.Executable()))
	cmd.Env = append(os.Environ(), holderEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	p := &holding{t: t, cmd: cmd, stdin: must[io.WriteCloser](t)(cmd.StdinPipe())}
	p.lines = bufio.NewScanner(must[io.ReadCloser](t)(cmd.StdoutPipe()))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// next gives what it tells next, nil if it has ended.
func (p *holding) next() *note {
	if !p.lines.Scan() {
		return nil
	}
	n := new(note)
	if err := json.Unmarshal(p.lines.Bytes(), n); err != nil {
		return nil // it was killed in the middle of a line
	}
	return n
}

// kill ends it with SIGKILL.
func (p *holding) kill() {
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Errorf("kill a holder: %v", err)
	}
}

// end waits for a process that was killed, or whose input has ended.
func (p *holding) end() { _ = errors.Join(p.stdin.Close(), p.cmd.Wait()) }
