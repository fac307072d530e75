package main_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coordgo/coord/conformance"
	"github.com/coordgo/coord/internal/testserver"
)

var (
	attackFor  = flag.Duration("for", 10*time.Second, "how long TestServeAttack goes on")
	attackSeed = flag.Uint64("seed", 0, "the seed of TestServeAttack; 0 takes one at random")
	attackLate = flag.Duration("late", 0, "have the callers of TestServeAttack believe for so much longer, which it has to find")
)

const (
	attackTTL  = 2 * time.Second // of all holds
	attackKeys = "a,b,c"
)

// attack is a run of callers in three languages on a few keys by two servers on one store.
type attack struct {
	*user
	servers [2]*attacked
	callers []*attacker
	started int
	seed    uint64
}

// attacked is a coord serve that is always started again at its port, and the network before it.
type attacked struct {
	u     *user
	port  string
	cmd   *exec.Cmd
	relay *conformance.Proxy
}

func (s *attacked) start() error {
	s.cmd = exec.Command(s.u.coord(), "serve", "--config", s.u.path("coord.yaml"))
	s.cmd.Env = append(s.u.env, "COORD_SERVE_LISTEN=127.0.0.1:"+s.port)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.cmd.StdoutPipe()
	if err := errors.Join(err, s.cmd.Start()); err != nil {
		return err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	return nil
}

// again starts it when it has ended.
func (s *attacked) again() error {
	_ = s.cmd.Wait() // it was killed, or drained
	return s.start()
}

// attacker is a caller.
type attacker struct {
	who string
	cmd *exec.Cmd
	out *os.File
}

// spawn starts the caller of that number, in one of three languages.
func (a *attack) spawn(i int) (*attacker, error) {
	urls := "http://" + a.servers[i%2].relay.Addr() + ",http://" + a.servers[1-i%2].relay.Addr()
	seed := strconv.FormatUint(a.seed+uint64(a.started), 10)
	var cmd *exec.Cmd
	language := []string{"go", "python", "shell"}[i%3]
	switch language {
	case "go":
		cmd = exec.Command(os.Args[0], urls, attackKeys, seed, attackLate.String())
	case "python":
		cmd = exec.Command("python3", "testdata/caller.py", urls, attackKeys, seed, strconv.FormatFloat(attackLate.Seconds(), 'f', 9, 64))
	default:
		shell := []string{"dash", "bash"}[i/3%2]
		cmd = exec.Command(shell, "testdata/caller.sh", shell, example(a.t, "shell", "coord-lock.sh"), urls, attackKeys)
	}
	cmd.Env = append(a.env, envCaller+"=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+example(a.t, "python"), "TMPDIR="+a.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	who := fmt.Sprintf("%s-%d", language, a.started)
	out, err := os.Create(a.path(who))
	if err != nil {
		return nil, err
	}
	a.started++
	cmd.Stdout, cmd.Stderr = out, out
	return &attacker{who, cmd, out}, cmd.Start()
}

// signal is to the caller and all that it has started, but for the commands of the shell.
func (c *attacker) signal(sig syscall.Signal) { _ = syscall.Kill(-c.cmd.Process.Pid, sig) }

func (c *attacker) kill() {
	c.signal(syscall.SIGKILL)
	_ = c.cmd.Wait()
	_ = c.out.Close()
}

// breakAll breaks servers, networks and callers until end. Each has its own nemesis, so that they break at the same time.
func (a *attack) breakAll(end time.Time) error {
	var all sync.WaitGroup
	var failed [2]error
	nemesis := func(n int, happens func(dice *rand.Rand) error) {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(a.seed, uint64(n)))
			for time.Now().Before(end) && failed[n] == nil {
				failed[n] = happens(dice)
			}
		})
	}
	nemesis(0, a.breakServer)
	nemesis(1, a.breakCaller)
	all.Wait()
	return errors.Join(failed[:]...)
}

// pause is how long something stays broken, or whole: at times longer than a TTL.
func pause(dice *rand.Rand) { time.Sleep(time.Duration(dice.Int64N(int64(3 * attackTTL / 2)))) }

func (a *attack) breakServer(dice *rand.Rand) error {
	pause(dice)
	s := a.servers[dice.IntN(2)]
	signal := func(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }
	switch dice.IntN(5) {
	case 0:
		signal(syscall.SIGKILL)
		return s.again()
	case 1:
		signal(syscall.SIGTERM)
		return s.again()
	case 2:
		signal(syscall.SIGSTOP)
		pause(dice)
		signal(syscall.SIGCONT)
	case 3:
		s.relay.Cut()
		pause(dice)
		s.relay.Heal()
	case 4:
		s.relay.StallReplies()
		pause(dice)
		s.relay.Heal()
	}
	return nil
}

func (a *attack) breakCaller(dice *rand.Rand) (err error) {
	i := dice.IntN(len(a.callers))
	a.callers[i].signal(syscall.SIGSTOP)
	pause(dice)
	if dice.IntN(2) == 0 {
		a.callers[i].signal(syscall.SIGCONT)
		return nil
	}
	a.callers[i].kill()
	a.callers[i], err = a.spawn(i)
	return err
}

// Callers in Go, Python and shell hold a few keys by two servers. Servers are killed, frozen, drained, cut off and started
// again, callers frozen and killed. By their own deadlines no two ever hold a key at a time, tokens rise, and in the end
// each key is free.
func TestServeAttack(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"curl", "python3", "dash", "bash"} {
		need(t, name)
	}
	for _, store := range []int{1, 2} { // Redis and etcd
		t.Run(sharedStores[store].name, func(t *testing.T) {
			t.Parallel()
			a := &attack{user: newUserOf(t, sharedStores[store]), seed: *attackSeed}
			if a.seed == 0 {
				a.seed = rand.Uint64()
			}
			t.Logf("-seed %d", a.seed)
			a.run()
		})
	}
}

func (a *attack) run() {
	t := a.t
	a.write("coord.yaml", "serve: {drain: 3s}")
	for i := range a.servers {
		s := &attacked{u: a.user, port: testserver.FreePort(t)}
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() }()
		var err error
		if s.relay, err = conformance.NewProxy("127.0.0.1:" + s.port); err != nil {
			t.Fatal(err)
		}
		defer s.relay.Close()
		a.servers[i] = s
	}
	for i := range 8 {
		c, err := a.spawn(i)
		if err != nil {
			t.Fatal(err)
		}
		a.callers = append(a.callers, c)
	}
	began := time.Now()
	for time.Since(began) < *attackFor || !a.everybodyHeld() { // of a busy machine more is wanted
		if err := a.breakAll(time.Now().Add(*attackFor / 2)); err != nil {
			t.Error(err)
			break
		}
	}
	for _, c := range a.callers {
		c.kill()
	}
	all := a.beliefs()
	for _, f := range judge(all) {
		t.Error(f)
	}
	a.freed(all)
	holds, released := map[string]int{}, 0
	for _, b := range all {
		language, _, _ := strings.Cut(b.who, "-")
		holds[language]++
		if b.released {
			released++
		}
	}
	t.Logf("%d callers in %v: holds %v, %d of them released", a.started, time.Since(began).Round(time.Second), holds, released)
}

// beliefs are those of all callers that there were.
func (a *attack) beliefs() (all []*belief) {
	files, err := filepath.Glob(a.path("*-*"))
	if err != nil {
		a.t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			a.t.Fatal(err)
		}
		list, err := beliefs(filepath.Base(file), string(text))
		if err != nil {
			a.t.Error(err)
		}
		all = append(all, list...)
	}
	return all
}

// everybodyHeld: callers of each language had a key, or the attack shows nothing of them.
func (a *attack) everybodyHeld() bool {
	held := map[string]bool{}
	for _, b := range a.beliefs() {
		language, _, _ := strings.Cut(b.who, "-")
		held[language] = true
	}
	return len(held) == 3 || a.t.Failed()
}

// freed: when all callers are dead, somebody else gets each key, with a greater token.
func (a *attack) freed(all []*belief) {
	s := &serving{&running{t: a.t, stderr: new(safeBuffer)}, "http://" + a.servers[0].relay.Addr()}
	for key := range strings.SplitSeq(attackKeys, ",") {
		status, answer := s.post("/v1/locks/acquire", fmt.Sprintf(`{"key":%q,"wait_ms":60000}`, key))
		text, _ := answer["token"].(string)
		token, err := strconv.ParseInt(text, 10, 64)
		if status != http.StatusOK || err != nil {
			a.t.Errorf("%s at the end: %d %v", key, status, answer)
			continue
		}
		for _, b := range all {
			if b.key == key && b.token >= token {
				a.t.Errorf("%s at the end: the token %d, after %s had %d", key, token, b.who, b.token)
			}
		}
	}
}
