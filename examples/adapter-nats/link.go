package natskv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coordgo/coord/driver"
)

const (
	// timeout bounds a request whose ctx does not end earlier.
	timeout = 5 * time.Second
	// patience is how long a request waits for a connection that is being made again.
	patience = 250 * time.Millisecond
)

// link sends requests over a connection. It sends each of them once.
type link struct {
	nc   *nats.Conn
	own  bool            // whether Close closes nc
	life context.Context // ends with Close
	end  context.CancelFunc
}

func newLink(nc *nats.Conn, own bool) *link {
	l := &link{nc: nc, own: own}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

func (l *link) close() {
	l.end()
	if l.own {
		l.nc.Close()
	}
}

// answer is what came of a request.
type answer struct {
	msg *nats.Msg
	err error
}

// ask makes one exchange. The library may block in a write, whatever ctx says, so it
// works in a goroutine of its own, which ends by the write's deadline at the latest.
func (l *link) ask(ctx context.Context, msg *nats.Msg) (*nats.Msg, error) {
	if err := l.ready(ctx); err != nil {
		return nil, ended(ctx, driver.NotSent(err))
	}
	lost := l.nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer l.nc.RemoveStatusListener(lost)
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	came := make(chan answer, 1)
	go func() {
		m, err := l.nc.RequestMsgWithContext(bounded, msg)
		came <- answer{m, err}
	}()
	select {
	case a := <-came:
		return a.msg, ended(ctx, judged(a.err))
	case <-lost: // the answer cannot come any more, and the library would wait for it
		return nil, ended(ctx, nats.ErrDisconnected)
	case <-bounded.Done():
		return nil, ended(ctx, bounded.Err())
	}
}

// ready waits a moment for a connection. A request made without one would be kept in the
// library's buffer, and sent long after its caller has gone.
func (l *link) ready(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if l.nc.IsConnected() {
		return nil
	}
	connected := l.nc.StatusChanged(nats.CONNECTED)
	defer l.nc.RemoveStatusListener(connected)
	late := time.NewTimer(patience)
	defer late.Stop()
	for !l.nc.IsConnected() {
		select {
		case <-connected:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.life.Done():
			return driver.ErrClosed
		case <-late.C:
			return fmt.Errorf("nats: %v", l.nc.Status())
		}
	}
	return nil
}

// judged marks the errors that say for certain that nobody was asked.
func judged(err error) error {
	for _, certain := range []error{
		nats.ErrNoResponders, nats.ErrMaxPayload, nats.ErrReconnectBufExceeded,
		nats.ErrHeadersNotSupported, nats.ErrConnectionDraining,
	} {
		if errors.Is(err, certain) {
			return driver.NotSent(err)
		}
	}
	return err
}

// ended adds to err that ctx has ended.
func ended(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}
