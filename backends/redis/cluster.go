package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// What differs on a cluster.
//
// go-redis follows MOVED and ASK, by which a node says that it did not run the
// command, and for which it sends it again elsewhere. It sends nothing again whose
// reply was lost, because no command of ours may be retried; see command. But then it
// does not look for the servers again either when one is gone, so that is done here.

// The tries of a command whose slot is moving, about one second in all.
const (
	tryAgainAtMost = 14
	tryAgainFirst  = 2 * time.Millisecond
	tryAgainMost   = 100 * time.Millisecond
)

// processOnCluster is process, for a cluster. While a slot moves to another node, the
// new node answers TRYAGAIN to a command of two keys of which it does not have
// both, that is, to each lock of the slot that is not held: nothing was done, and it
// passes.
func (b *backend) processOnCluster(ctx context.Context, cmd redis.Cmder) error {
	wait := tryAgainFirst
	for try := 1; ; try++ {
		finished, err := b.toMaster(ctx, cmd)
		if !finished || redirected(err) {
			finished, err = b.do(ctx, b.client, cmd)
		}
		if err == nil {
			return nil
		}
		b.noticeTopology(err)
		if !finished || !redis.IsTryAgainError(err) || try == tryAgainAtMost {
			return b.clusterError(err)
		}
		if over := b.calls.Pause(ctx, wait); over != nil {
			return fmt.Errorf("%w: %w", over, err)
		}
		wait = min(2*wait, tryAgainMost)
	}
}

// toMaster runs a script at the server that its keys were on when last heard, together with
// other calls to that server. sent is false if nobody has tried. A redirection is not
// followed.
func (b *backend) toMaster(ctx context.Context, cmd redis.Cmder) (sent bool, err error) {
	args := cmd.Args()
	if len(args) < 4 || b.calls.Closed() {
		return false, nil
	}
	key, ok := args[3].(string)
	if !ok {
		return false, nil
	}
	node, err := b.cluster.MasterForKey(context.Background(), key) // is known
	if err != nil {
		return false, nil
	}
	return true, b.pipeliners.of(b, node).Do(ctx, cmd)
}

// noticeTopology makes the client of a cluster ask where the slots are, after an
// error that may mean that they are elsewhere now. That happens in the background, five
// times a second at most once it succeeds.
func (b *backend) noticeTopology(err error) {
	if b.cluster == nil || err == nil {
		return
	}
	var reply redis.Error
	if !errors.As(err, &reply) || redirected(err) || redis.IsReadOnlyError(err) || redis.IsClusterDownError(err) || redis.IsMasterDownError(err) {
		b.cluster.ReloadState(context.Background())
	}
}

// redirected: the node did not run the command, because the slot is not its own.
func redirected(err error) bool {
	if err == nil {
		return false
	}
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask
}

// clusterError is err, unless it only looks like that of a client that was closed: the
// client closes its connections to a node that has left.
func (b *backend) clusterError(err error) error {
	if b.cluster == nil || b.calls.Closed() {
		return err
	}
	if errors.Is(err, redis.ErrClosed) || strings.HasPrefix(err.Error(), "redis: cluster has no nodes") {
		return driver.NotSent(err)
	}
	return err
}
