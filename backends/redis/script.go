package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

// script is a Lua script, run by its digest.
type script struct {
	source any // a string; boxed once
	sha    any
	keys   any // how many
}

func newScript(keys int, parts ...string) *script {
	source := strings.Join(parts, "\n")
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:]), keys: keys}
}

// The sources. What a script does and replies is said in its first lines.
var (
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/renew.lua
	renewLua string
	//go:embed lua/unlock.lua
	unlockLua string
	//go:embed lua/unlock_next.lua
	unlockNextLua string
	//go:embed lua/withdraw.lua
	withdrawLua string
	//go:embed lua/unlock_after.lua
	unlockAfterLua string
	//go:embed lua/unlock_after_next.lua
	unlockAfterNextLua string
	//go:embed lua/place.lua
	placeLua string
	//go:embed lua/grant.lua
	grantLua string
	//go:embed lua/queue.lua
	queueLua string
	//go:embed lua/confirm.lua
	confirmLua string
	//go:embed lua/line.lua
	lineLua string
	//go:embed lua/free.lua
	freeLua string
	//go:embed lua/wait.lua
	waitLua string
	//go:embed lua/refresh.lua
	refreshLua string
	//go:embed lua/break.lua
	breakLua string
	//go:embed lua/inspect.lua
	inspectLua string
	//go:embed lua/reset.lua
	resetLua string
	//go:embed lua/common.lua
	commonLua string
	//go:embed lua/bucket_state.lua
	bucketStateLua string
	//go:embed lua/bucket_take.lua
	bucketTakeLua string
	//go:embed lua/bucket_refund.lua
	bucketRefundLua string
	//go:embed lua/bucket_store.lua
	bucketStoreLua string
	//go:embed lua/window_state.lua
	windowStateLua string
	//go:embed lua/window_take.lua
	windowTakeLua string
	//go:embed lua/window_store.lua
	windowStoreLua string
	//go:embed lua/window_refund.lua
	windowRefundLua string
	//go:embed lua/multi_begin.lua
	multiBeginLua string
	//go:embed lua/multi_end.lua
	multiEndLua string
)

// The scripts.
var (
	acquireScript     = newScript(2, "local full = false", acquireLua, waitParts("local id, ttl, where = ARGV[1], ARGV[2]"))
	acquireFullScript = newScript(2, "local full = true", acquireLua, waitParts("local id, ttl, where = ARGV[1], ARGV[2]"))
	waitScript        = newScript(2, waitParts("local id, ttl, where = ARGV[1], ARGV[2], ARGV[3]"))
	confirmScript     = newScript(2, placeLua, grantLua, confirmLua, "return {0}")
	refreshScript     = newScript(1, placeLua, queueLua, lineLua, refreshLua)
	renewScript       = newScript(2, renewLua)
	unlockScript      = newScript(1, unlockLua, placeLua, queueLua, unlockNextLua, withdrawLua)
	unlockAfterScript = newScript(1, unlockAfterLua, placeLua, queueLua, unlockAfterNextLua)
	breakScript       = newScript(1, breakLua)
	inspectScript     = newScript(2, inspectLua)
	resetScript       = newScript(1, resetLua)
)

// waitParts is the script of those who wait, the arguments of which are named first.
func waitParts(arguments string) string {
	return strings.Join([]string{
		placeLua, grantLua, confirmLua, arguments, queueLua, lineLua,
		"if not holder or holder == id then", freeLua, "end", waitLua,
	}, "\n")
}

// limitScripts are the scripts of limits: of one limit over its state, and
// takeAll over those of several.
type limitScripts struct {
	bucketTake, bucketRefund, windowTake, windowRefund, takeAll *script
}

func (l *limitScripts) all() []*script {
	return []*script{l.bucketTake, l.bucketRefund, l.windowTake, l.windowRefund, l.takeAll}
}

// newLimitScripts puts the scripts together from their parts, each edited first.
func newLimitScripts(edit func(string) string) limitScripts {
	build := func(parts ...string) *script {
		for i, p := range parts {
			parts[i] = edit(p)
		}
		return newScript(1, parts...)
	}
	return limitScripts{
		bucketTake:   build(commonLua, bucketStateLua, bucketTakeLua, bucketStoreLua),
		bucketRefund: build(commonLua, bucketStateLua, bucketRefundLua, bucketStoreLua),
		windowTake:   build(commonLua, windowStateLua, windowTakeLua, windowStoreLua),
		windowRefund: build(commonLua, windowStateLua, windowRefundLua, windowStoreLua),
		takeAll: build(commonLua, multiBeginLua,
			"local function bucket(KEYS, ARGV)", bucketStateLua, bucketTakeLua, bucketStoreLua, "end",
			"local function window(KEYS, ARGV)", windowStateLua, windowTakeLua, windowStoreLua, "end",
			multiEndLua),
	}
}

var productionLimits = newLimitScripts(func(part string) string { return part })

// call is one run of a script that replies with integers. It is never sent
// twice: a client that retries on its own would answer the repeated release of
// a lock with "not held", and take permits twice.
type call struct{ redis.IntSliceCmd }

// NoRetry tells the client not to send it again.
func (c *call) NoRetry() bool { return true }

// anyCall is one run of a script that replies with strings and integers.
type anyCall struct{ redis.SliceCmd }

func (c *anyCall) NoRetry() bool { return true }

// bytesCall is one run of a script that replies with one string.
type bytesCall struct{ redis.StringCmd }

func (c *bytesCall) NoRetry() bool { return true }

// anyNumbers is one run of a script that replies with one integer or with several, together
// with its command line.
type anyNumbers struct {
	redis.Cmd
	argv [9]any
}

func (c *anyNumbers) NoRetry() bool { return true }

// numberCall is one run of a script that replies with one integer, likewise.
type numberCall struct {
	redis.IntCmd
	argv [7]any
}

func (c *numberCall) NoRetry() bool { return true }

func newBytesCall(ctx context.Context, args []any) *bytesCall {
	return &bytesCall{*redis.NewStringCmd(ctx, args...)}
}

func newCall(ctx context.Context, args []any) *call {
	return &call{*redis.NewIntSliceCmd(ctx, args...)}
}

// args is the command line that runs s by digest: keys, then arguments, follow.
func (s *script) args(keysAndArgs ...any) []any {
	args := make([]any, 3, 3+len(keysAndArgs))
	args[0], args[1], args[2] = "evalsha", s.sha, s.keys
	return append(args, keysAndArgs...)
}

// into is args, in a line that is there.
func (s *script) into(line []any, keysAndArgs []any) []any {
	line[0], line[1], line[2] = "evalsha", s.sha, s.keys
	return line[:3+copy(line[3:], keysAndArgs)]
}

// withSource is the same run with the source, for a server that does not know
// the digest; from then on it does.
func (s *script) withSource(args []any) []any {
	again := append([]any(nil), args...)
	again[0], again[1] = "eval", s.source
	return again
}

// smallCall is a call together with its command line, in one allocation.
type smallCall struct {
	call
	argv [9]any
}

// runInts runs s and gives its reply of want integers or more, or of a zero.
func (b *backend) runInts(ctx context.Context, s *script, want int, keysAndArgs ...any) ([]int64, error) {
	c := new(smallCall)
	args := s.into(c.argv[:], keysAndArgs)
	c.call = call{*redis.NewIntSliceCmd(ctx, args...)}
	return b.intsOf(ctx, s, want, &c.call, args)
}

// runArgs is runInts of a whole command line.
func (b *backend) runArgs(ctx context.Context, s *script, want int, args []any) ([]int64, error) {
	return b.intsOf(ctx, s, want, newCall(ctx, args), args)
}

func (b *backend) intsOf(ctx context.Context, s *script, want int, c *call, args []any) ([]int64, error) {
	err := b.process(ctx, c)
	if noScript(err) {
		c = newCall(ctx, s.withSource(args))
		err = b.process(ctx, c)
	}
	if err != nil {
		return nil, classify(err)
	}
	return checkReply(c.Val(), want)
}

func checkReply(reply []int64, want int) ([]int64, error) {
	if len(reply) == 0 || len(reply) < want && reply[0] != 0 {
		return nil, fmt.Errorf("script replied %d numbers, want %d", len(reply), want)
	}
	return reply, nil
}

// runNumber runs s and gives its reply of one integer.
func (b *backend) runNumber(ctx context.Context, s *script, keysAndArgs ...any) (int64, error) {
	c := new(numberCall)
	args := s.into(c.argv[:], keysAndArgs)
	c.IntCmd = *redis.NewIntCmd(ctx, args...)
	err := b.process(ctx, c)
	if noScript(err) {
		c = &numberCall{IntCmd: *redis.NewIntCmd(ctx, s.withSource(args)...)}
		err = b.process(ctx, c)
	}
	if err != nil {
		return 0, classify(err)
	}
	return c.Val(), nil
}

// runAny runs s and gives its reply: an integer, or several.
func (b *backend) runAny(ctx context.Context, s *script, keysAndArgs ...any) (one int64, several []int64, err error) {
	c := new(anyNumbers)
	args := s.into(c.argv[:], keysAndArgs)
	c.Cmd = *redis.NewCmd(ctx, args...)
	err = b.process(ctx, c)
	if noScript(err) {
		c = &anyNumbers{Cmd: *redis.NewCmd(ctx, s.withSource(args)...)}
		err = b.process(ctx, c)
	}
	if err != nil {
		return 0, nil, classify(err)
	}
	if one, ok := c.Val().(int64); ok {
		return one, nil, nil
	}
	several, err = c.Int64Slice()
	return 0, several, err
}

func noScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// classify says what an error of go-redis tells about the command: an error
// that the server replied, and one from before it was sent, mean that nothing
// was done. Any other is returned as it is: the outcome is unknown.
//
// A server refuses a script for lack of memory, or as a replica, at its first
// write, and then nothing was done. What a script finds to be of a wrong type
// after its first write, it undoes.
func classify(err error) error {
	var reply redis.Error
	switch {
	case err == nil || driver.Definite(err):
		return err
	case errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), dialError(err), noMaster(err):
		return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	case !errors.As(err, &reply):
		return err
	case strings.Contains(reply.Error(), "WRONGTYPE "), strings.Contains(reply.Error(), "COORDCORRUPT "):
		return fmt.Errorf("%w: %w", driver.ErrCorrupt, err)
	case redis.HasErrorPrefix(err, "CROSSSLOT"):
		return fmt.Errorf("%w: on a cluster several limits can be taken at once only of one key: %w", driver.ErrUnsupported, err)
	default:
		return fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
}
