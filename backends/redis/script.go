package redis

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"

	"github.com/redis/go-redis/v9"
)

// script is a Lua script. The server keeps it under its digest.
type script struct {
	source string
	digest any // a string; boxed once
	keys   int // how many
}

// undeclared lets Dragonfly run a script that makes names of keys beside those that it is given.
const undeclared = "--!df flags=allow-undeclared-keys\n"

func newScript(keys int, source string) *script {
	source = undeclared + source
	sum := sha1.Sum([]byte(source))
	return &script{source: source, digest: hex.EncodeToString(sum[:]), keys: keys}
}

//go:embed lua
var luaFiles embed.FS

// included is a line of a script that stands for a file, the first time that it occurs.
var included = regexp.MustCompile(`(?m)^-- include (\w+\.lua)\n`)

// source reads the script of that name.
func source(name string) string {
	done := map[string]bool{}
	var read func(file string) string
	read = func(file string) string {
		if done[file] {
			return ""
		}
		done[file] = true
		text, err := luaFiles.ReadFile("lua/" + file)
		if err != nil {
			panic(err) // an include of a file that is not there
		}
		return included.ReplaceAllStringFunc(string(text), func(line string) string {
			return read(included.FindStringSubmatch(line)[1])
		})
	}
	return read(name + ".lua")
}

// The scripts. What each does and replies is said in its first lines.
var (
	acquireScript = newScript(2, source("acquire"))
	waitScript    = newScript(2, source("wait"))
	confirmScript = newScript(2, source("confirm"))
	refreshScript = newScript(1, source("refresh"))
	renewScript   = newScript(2, source("renew"))

	acquireFloorScript = newScript(2, source("acquire_floor"))
	renewFloorScript   = newScript(2, source("renew_floor"))

	unlockScript      = newScript(1, source("unlock"))
	unlockAfterScript = newScript(1, source("unlock_after"))
	breakScript       = newScript(1, source("break"))
	inspectScript     = newScript(2, source("inspect"))
	resetScript       = newScript(1, source("reset"))
)

// limitScripts are the scripts of limits: of one limit, by algorithm, and of several.
type limitScripts struct{ bucket, window, several *script }

// newLimitScripts reads the scripts of limits, each edited first.
func newLimitScripts(edit func(source string) string) limitScripts {
	read := func(name string) *script { return newScript(1, edit(source(name))) }
	return limitScripts{bucket: read("bucket"), window: read("window"), several: read("several")}
}

func (l *limitScripts) all() []*script { return []*script{l.bucket, l.window, l.several} }

var productionLimits = newLimitScripts(func(source string) string { return source })

// sharedScripts are the scripts of shared holds.
type sharedScripts struct{ take, renew, unlock, breaks, holders, watch *script }

// newSharedScripts reads the scripts of shared holds, each edited first.
func newSharedScripts(edit func(source string) string) sharedScripts {
	read := func(name string) *script { return newScript(1, edit(source("shared_"+name))) }
	return sharedScripts{read("take"), read("renew"), read("unlock"), read("break"), read("holders"), read("watch")}
}

func (s *sharedScripts) all() []*script {
	return []*script{s.take, s.renew, s.unlock, s.breaks, s.holders, s.watch}
}

var productionShared = newSharedScripts(func(source string) string { return source })

// command is one run of a script. It is never sent twice: a client that retries on its own would answer the
// repeated release of a lock with "not held", and take permits twice.
type command struct {
	redis.Cmd
	script *script
	wait   *redis.IntCmd // the WAIT that follows it, where replicas are waited for
	line   [9]any        // most command lines fit
}

// NoRetry tells the client not to send it again.
func (c *command) NoRetry() bool { return true }

// command makes a run of s by its digest.
func (s *script) command(ctx context.Context, keysAndArgs ...any) *command {
	c := &command{script: s}
	line := append(c.line[:0], "evalsha", s.digest, s.keys)
	c.Cmd = *redis.NewCmd(ctx, append(line, keysAndArgs...)...)
	return c
}

// withSource makes the same run with the source of the script. The server knows the digest from then on.
func (c *command) withSource(ctx context.Context) *command {
	line := append([]any{"eval", c.script.source}, c.Args()[2:]...)
	return &command{Cmd: *redis.NewCmd(ctx, line...), script: c.script}
}

// run sends c, and sends it with its source if the server does not know the script.
func (b *backend) run(ctx context.Context, c *command) reply {
	err := b.process(ctx, c)
	if noScript(err) {
		c = c.withSource(ctx)
		err = b.process(ctx, c)
	}
	if err != nil {
		return reply{err: classify(c.named(err))}
	}
	return reply{value: c.Val()}
}

// runAll is run for many commands, in one pipeline to each server. If replicas is not 0, it waits until as many have
// what the commands did.
func (b *backend) runAll(ctx context.Context, replicas int, commands []*command) []reply {
	replies := make([]reply, len(commands))
	var unknown []*command // whose script the server does not know
	var which []int
	finished, err := b.do(ctx, pipelines{b, replicas, commands}, nil)
	for i, c := range commands {
		if finished {
			err = c.Err()
		}
		switch {
		case err == nil:
			replies[i] = reply{value: c.Val(), short: b.shortfall(c.wait)}
		case noScript(err) && c.Name() == "evalsha":
			unknown, which = append(unknown, c.withSource(ctx)), append(which, i)
		default:
			b.noticeTopology(err)
			replies[i] = reply{err: classify(c.named(b.clusterError(err)))}
		}
	}
	if len(unknown) > 0 {
		for k, r := range b.runAll(ctx, replicas, unknown) {
			replies[which[k]] = r
		}
	}
	return replies
}

// reply is what a script replied, or the error.
type reply struct {
	value any
	short error // too few replicas have what the script did, if it did anything
	err   error
}

// integer reads a reply of one integer.
func (r reply) integer() (int64, error) {
	n, ok := r.value.(int64)
	if !ok && r.err == nil {
		return 0, fmt.Errorf("script replied %T, want an integer", r.value)
	}
	return n, r.err
}

// integers reads a reply of want integers or more, or of fewer that begin with a zero.
func (r reply) integers(want int) (integers, error) {
	if r.err != nil {
		return nil, r.err
	}
	several, _ := r.value.([]any)
	for _, v := range several {
		if _, ok := v.(int64); !ok {
			return nil, fmt.Errorf("script replied %T, want an integer", v)
		}
	}
	n := integers(several)
	if len(n) == 0 || len(n) < want && n.at(0) != 0 {
		return nil, fmt.Errorf("script replied %d numbers, want %d", len(n), want)
	}
	return n, nil
}

// integers are those of one reply.
type integers []any

func (n integers) at(i int) int64 { return n[i].(int64) }

// packed reads a reply of so many packed numbers.
func (r reply) packed(want int) (packedReply, error) {
	text, ok := r.value.(string)
	if r.err == nil && (!ok || len(text) != 8*want) {
		return "", fmt.Errorf("script replied %T of %d bytes, want a string of %d", r.value, len(text), 8*want)
	}
	return packedReply(text), r.err
}

func noScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }
