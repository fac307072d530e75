package redis

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/coordgo/coord/driver"
)

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
		return driver.NotSent(explain(err))
	case !errors.As(err, &reply):
		return err
	case strings.Contains(reply.Error(), "WRONGTYPE "), strings.Contains(reply.Error(), "COORDCORRUPT "):
		return fmt.Errorf("%w: %w", driver.ErrCorrupt, err)
	case redis.HasErrorPrefix(err, "CROSSSLOT"):
		return fmt.Errorf("%w: on a cluster several limits can be taken at once only of one key: %w", driver.ErrUnsupported, err)
	default:
		return driver.NotSent(explain(err))
	}
}

// remedies are what to do about replies, by a part of their text. Which of several texts a server has depends on its
// version.
var remedies = []struct{ text, remedy string }{
	{"WRONGPASS ", "wrong user or password"},
	{"NOAUTH ", "the server asks for a password: give one, as in redis://:password@host"},
	{"DB index is out of range", "the server has no database of this number: use a smaller one"},
	{"SELECT is not allowed in cluster mode", "a cluster has only database 0: use redis+cluster:// without a number"},
	{"cluster support disabled", "the server is not in a cluster: use redis:// in place of redis+cluster://"},
	{"unknown command 'cluster'", "the server is a sentinel: use redis+sentinel://host:26379/MASTER, or the nodes of the cluster"},
	{"unknown command 'sentinel'", "the server is not a sentinel: use its port, 26379 as a rule, or redis:// in place of redis+sentinel://"},
	{"No such master with that name", "the sentinels do not know a master of this name: correct the path of the URL"},
	{"unknown command 'info'", noInfo},
	{"unknown command `info`", noInfo},
	{"unsupported command 'info'", noInfo}, // Envoy
	{"MOVED ", "the server is in a cluster: use redis+cluster:// in place of redis://"},
	{"READONLY ", "the server is a replica: use the address of the master, or redis+sentinel://"},
	{"OOM ", "the memory of the server is full: raise maxmemory"},
}

// refusedCommand is how a reply names a command that the user may not run.
var refusedCommand = regexp.MustCompile(`(?:run|execute) the '([^']+)' command`)

// explain puts what to do in front of an error, where that is known.
func explain(err error) error {
	text := err.Error()
	remedy := ""
	for _, r := range remedies {
		if strings.Contains(text, r.text) {
			remedy = r.remedy
			break
		}
	}
	if strings.Contains(text, "the user may not ") { // see named
		return err
	}
	if strings.Contains(text, "NOPERM ") || strings.Contains(text, "ACL failure in script") || strings.Contains(text, "user executing the script") {
		remedy = "the user has no permission: grant it with ACL SETUSER"
		if m := refusedCommand.FindStringSubmatch(text); m != nil {
			remedy = fmt.Sprintf("the user may not run %s: grant it with ACL SETUSER name +%s", m[1], m[1])
		}
	}
	if remedy == "" {
		return err
	}
	return fmt.Errorf("%s: %w", remedy, err)
}

// scriptLine is where in a script an error came up, scriptCall how a script calls a command.
var (
	scriptLine = regexp.MustCompile(`user_script: ?(\d+)`)
	scriptCall = regexp.MustCompile(`call\('([A-Z]+)'`)
)

// refused are the commands on the line of s of which the server says that the user may not run it, with " +" between, or
// "".
func (s *script) refused(err error) string {
	if err == nil || !strings.Contains(err.Error(), "user executing the script") {
		return ""
	}
	m := scriptLine.FindStringSubmatch(err.Error())
	if m == nil {
		return ""
	}
	lines := strings.Split(s.source, "\n")
	n, _ := strconv.Atoi(m[1])
	if n < 1 || n > len(lines) {
		return ""
	}
	calls := scriptCall.FindAllStringSubmatch(lines[n-1], -1)
	var names []string
	for _, call := range calls {
		names = append(names, strings.ToLower(call[1]))
	}
	return strings.Join(names, " +")
}

// named adds to a reply what the server does not say: the key that the user may not use, and before Redis 7.2 the command
// that it may not run in a script.
func (c *command) named(err error) error {
	args := c.Args()
	if name := c.script.refused(err); name != "" {
		return fmt.Errorf("the user may not run %s: grant it with ACL SETUSER name +%s: %w", name, name, err)
	}
	if !redis.HasErrorPrefix(err, "NOPERM") || !strings.Contains(err.Error(), "keys") || len(args) < 4 {
		return err
	}
	return fmt.Errorf("the user may not use the key %q: grant it with ACL SETUSER name ~coord:*: %w", args[3], err)
}
