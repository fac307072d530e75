package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/cmd/internal/child"
	"github.com/coordgo/coord/config"
	"github.com/coordgo/coord/driver"
)

const lockLong = `Runs CMD while holding the lock NAME, and gives CMD's exit status. It waits for the
lock as long as it takes, unless --wait or --no-wait says otherwise.

CMD has COORD_LOCK, the name, and COORD_TOKEN, the fencing token, in its environment:
a number that is greater for each later holder. A lock is a lease, not a mutex:
let what CMD writes to refuse a token that is older than one it has seen.

The lock is renewed while CMD runs and freed when CMD has ended. Signals are passed
on to CMD. If the lock cannot be renewed, CMD gets TERM --grace before the lease
ends, and KILL when it ends; if the lock is found lost, TERM at once and KILL after
--grace at the latest. coord then exits with 74. On Linux CMD is killed if
coord itself is.

With --read others may hold NAME so at the same time, and with --write nobody: a
read/write lock. With --permits N, a semaphore, at most N run at a time on all
machines together; while commands with different N run, the least counts. CMD then
has COORD_SLOT in its environment, a number from 0 that no other holder has at the
time; fence by the slot: its tokens rise. Neither has to do with the lock NAME
without these flags.`

const lockExample = `  # one at a time; the second exits with 75 at once
  coord lock nightly --no-wait -- ./nightly.sh

  # wait ten seconds for it, and hold it for five minutes at most
  coord lock deploy --wait 10s --max-hold 5m -- make deploy

  # at most once in ten minutes on all machines, from cron: not having it is fine
  coord lock report --no-wait --min-hold 10m --conflict-exit 0 -- ./report.sh

  # many readers, or one writer
  coord lock index --read -- ./search.sh
  coord lock index --write -- ./rebuild.sh

  # three builds at a time on all machines; a large one counts as two
  coord lock build --permits 3 -- make
  coord lock build --permits 3 --weight 2 -- make world`

// defaultGrace is what CMD has between TERM and KILL.
const defaultGrace = 5 * time.Second

// lockFlags are the flags of coord lock.
type lockFlags struct {
	ttl, wait, maxHold, minHold, grace time.Duration
	noWait, fair, verbose              bool
	conflictExit                       int
	sharing
}

func (a *App) lock(stop func()) *cobra.Command {
	var f lockFlags
	cmd := &cobra.Command{
		Use:               "lock NAME [flags] -- CMD [ARG]...",
		Short:             "Run a command while holding a lock",
		Long:              lockLong,
		Example:           lockExample,
		ValidArgsFunction: a.afterName(a.heldNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, command, cfg, err := a.lockCommand(cmd, args, &f)
			if err != nil {
				return err
			}
			return a.runLock(cmd.Context(), stop, cfg, name, command, f)
		},
	}
	f.define(cmd)
	flags := cmd.Flags()
	flags.DurationVar(&f.minHold, "min-hold", 0, "keep the lock taken at least this long, even if CMD ends sooner")
	f.sharing.define(cmd)
	NoFiles(cmd, "min-hold")
	return cmd
}

// define makes the flags of all commands that run another one under a lock, or a permit.
func (f *lockFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.ttl, "ttl", 0, "lease: how long the lock stays taken if this machine dies (default 30s)")
	flags.DurationVar(&f.wait, "wait", 0, "wait for the lock at most this long (default: as long as it takes)")
	flags.BoolVar(&f.noWait, "no-wait", false, "do not wait for the lock")
	flags.BoolVar(&f.fair, "fair", false, "be granted in the order of those who wait so, over all machines")
	flags.DurationVar(&f.maxHold, "max-hold", 0, "let CMD run at most this long; the lock is freed when it has ended (default: no bound)")
	flags.DurationVar(&f.grace, "grace", defaultGrace, "time between TERM and KILL on loss; at most a third of the TTL and a quarter of --max-hold")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "say on standard error at once who holds the lock; on a terminal coord does so after 2s")
	flags.IntVar(&f.conflictExit, "conflict-exit", ExitRefused, "exit status when the lock is taken, 0 to 255; 0 is silent")
	for _, name := range []string{"ttl", "wait", "max-hold", "grace", "conflict-exit"} {
		NoFiles(cmd, name)
	}
}

// lockCommand reads what a command that runs another one under a lock was given, and the configuration.
func (a *App) lockCommand(cmd *cobra.Command, args []string, f *lockFlags) (name string, command []string, cfg *config.Config, err error) {
	name, command, err = nameAndCommand(cmd, args)
	if err == nil && command == nil {
		err = Usage("no command: want %s %s -- CMD", cmd.CommandPath(), name)
	}
	if err != nil {
		return "", nil, nil, err
	}
	if cfg, err = a.store.loadShared(cmd.Context()); err != nil {
		return "", nil, nil, err
	}
	return name, command, cfg, f.check(cmd, cfg)
}

// check refuses what can never work, and fits a grace time that was not given to the lease.
func (f *lockFlags) check(cmd *cobra.Command, cfg *config.Config) error {
	given := cmd.Flags().Changed
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"ttl", f.ttl}, {"wait", f.wait}, {"max-hold", f.maxHold}, {"min-hold", f.minHold}} {
		if given(d.name) && d.value <= 0 {
			return Usage("--%s %v: want above 0", d.name, d.value)
		}
	}
	switch {
	case given("wait") && f.noWait:
		return Usage("--wait and --no-wait contradict each other: give one of them")
	case f.conflictExit < 0 || f.conflictExit > 255:
		return Usage("--conflict-exit %d: want 0 to 255", f.conflictExit)
	case f.grace < 0:
		return Usage("--grace %v: want 0 or more", f.grace)
	}
	if err := f.sharing.check(given, f.minHold); err != nil {
		return err
	}
	if f.maxHold == 0 {
		f.maxHold = cfg.Lock.MaxHold
	}
	// The lease is kept until the command has ended: a command that cannot be ended must not
	// go on beside the next holder. So it is the command's time that is bounded, not the hold's.
	cfg.Lock.MaxHold = 0
	minHold := max(f.minHold, cfg.Lock.MinHold)
	if f.maxHold > 0 && minHold > f.maxHold {
		return Usage("--min-hold %v: want at most --max-hold, %v", minHold, f.maxHold)
	}
	longest := f.longestGrace(cfg)
	if f.grace > longest {
		if given("grace") {
			return Usage("--grace %v: want at most %v, a third of the TTL and a quarter of --max-hold", f.grace, longest)
		}
		f.grace = longest
	}
	return nil
}

// longestGrace leaves the lock time to be renewed before CMD is told to end.
func (f *lockFlags) longestGrace(cfg *config.Config) time.Duration {
	ttl := f.ttl
	if ttl == 0 {
		ttl = cfg.Lock.TTL
	}
	if ttl == 0 {
		ttl = coord.DefaultTTL
	}
	longest := ttl / 3
	if f.maxHold > 0 {
		longest = min(longest, f.maxHold/4)
	}
	return longest
}

func (f *lockFlags) options(waits bool) []coord.LockOption {
	var opts []coord.LockOption
	add := func(d time.Duration, option func(time.Duration) coord.LockOption) {
		if d > 0 {
			opts = append(opts, option(d))
		}
	}
	add(f.ttl, coord.TTL)
	if waits {
		add(f.wait, coord.WaitAtMost)
	}
	add(f.minHold, coord.MinHold)
	if f.fair {
		opts = append(opts, coord.Fair())
	}
	if f.weight > 0 {
		opts = append(opts, coord.Weight(f.weight))
	}
	return opts
}

// runLock takes the lock, runs the command and frees the lock.
func (a *App) runLock(ctx context.Context, stop func(), cfg *config.Config, name string, command []string, f lockFlags) error {
	cmd, err := child.Find(command) // before the wait, not after it
	if err != nil {
		return err
	}
	client, err := OpenConfig(ctx, cfg)
	if err != nil {
		return Cause(ctx, err)
	}
	lost := false
	defer func() {
		if lost {
			return // Close could wait for a store that is silent, and give nothing back
		}
		// The lock is free, or on its way: what the command said is what counts.
		if err := client.Close(); err != nil {
			fmt.Fprintf(a.stderr, "coord: %s\n", OneLine(err))
		}
	}()
	if info := client.Info(); f.minHold > 0 && !info.Claims.Has(driver.MinHoldAfterExit) {
		return Usage("--min-hold %v: the store %s does not claim %q: it frees a lock when its process ends", f.minHold, info.Name, driver.MinHoldAfterExit)
	}
	lock, err := a.acquire(ctx, client, name, f)
	if err != nil {
		return a.notHad(ctx, client, name, f, err)
	}
	stop()
	if ctx.Err() != nil { // a signal came with the grant
		return Cause(ctx, errors.Join(ctx.Err(), lock.Unlock(ctx)))
	}
	lost, err = a.runHeld(lock, cmd, f)
	return err
}

// acquire takes the lock, as patiently as the flags say.
func (a *App) acquire(ctx context.Context, client *config.Client, name string, f lockFlags, opts ...coord.LockOption) (*coord.Lock, error) {
	locker := f.locker(client)
	if f.noWait {
		return locker.TryLock(ctx, name, append(f.options(false), opts...)...)
	}
	if f.verbose {
		lock, err := locker.TryLock(ctx, name, append(f.options(false), opts...)...)
		var later *driver.NotYetError
		switch {
		case errors.Is(err, coord.ErrLocked):
			fmt.Fprintf(a.stderr, "coord: waiting: %s\n", f.taken(ctx, client, name, nil))
		case !errors.As(err, &later): // else Lock waits for the store, and says so
			return lock, err
		}
	}
	if a.Terminal && !f.verbose {
		defer a.tellOfWait(ctx, client, name, f)()
	}
	return locker.Lock(ctx, name, append(f.options(true), opts...)...)
}

// quietWait is how long a person at a terminal waits without a word.
const quietWait = 2 * time.Second

// tellOfWait says after a while who holds the lock, unless the wait has ended.
func (a *App) tellOfWait(ctx context.Context, client *config.Client, name string, f lockFlags) (ended func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		quiet := time.NewTimer(quietWait)
		defer quiet.Stop()
		select {
		case <-ctx.Done():
			return
		case <-quiet.C:
		}
		if text := f.taken(ctx, client, name, nil); ctx.Err() == nil {
			fmt.Fprintf(a.stderr, "coord: waiting: %s\n", text)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// runUnder runs the command under lock.
func (a *App) runUnder(lock *coord.Lock, cmd child.Command, f lockFlags) (code int, told child.Reason, err error) {
	env := []string{"COORD_LOCK=" + lock.Key(), "COORD_TOKEN=" + strconv.FormatInt(int64(lock.Token()), 10)}
	if f.permits > 0 {
		env = append(env, "COORD_SLOT="+strconv.Itoa(lock.Slot()))
	}
	warn := func(err error) {
		fmt.Fprintf(a.stderr, "coord: under the lock %q: %v\n", lock.Key(), err)
	}
	return a.Runner.Run(cmd, env, lock, child.Limits{Grace: f.grace, MaxRun: f.maxHold}, a.signals, warn)
}

// runHeld runs the command under lock and unlocks. lost says that the lock was lost first.
func (a *App) runHeld(lock *coord.Lock, cmd child.Command, f lockFlags) (lost bool, err error) {
	code, told, err := a.runUnder(lock, cmd, f)
	unlockErr := a.free(lock)
	switch {
	case err != nil:
		return false, err
	case told == child.Lost || errors.Is(unlockErr, coord.ErrNotHeld):
		return true, Exit(ExitLost, "the lock %q was lost while the command ran: check what it left half done", lock.Key())
	case told == child.MaxRun:
		return false, Exit(ExitLost, "the lock %q reached its --max-hold of %v: the command has ended", lock.Key(), f.maxHold)
	case unlockErr != nil:
		fmt.Fprintf(a.stderr, "coord: the store did not confirm that %q is free; it is in %v at the latest: %s\n", lock.Key(), lock.TTL(), OneLine(unlockErr))
	}
	if code != 0 {
		return false, Exit(code, "")
	}
	return false, nil
}

// errUnconfirmed: the lease has ended before the store confirmed that the lock is free.
var errUnconfirmed = errors.New("no answer before the lease ended")

// free unlocks. It waits for the store until the lease ends: then there is nothing left to free.
func (a *App) free(lock *coord.Lock) error {
	left := time.NewTimer(time.Until(lock.Deadline()))
	defer left.Stop()
	freed := make(chan error, 1)
	go func() { freed <- lock.Unlock(context.Background()) }()
	select {
	case err := <-freed:
		return err
	case <-left.C:
	}
	select {
	case err := <-freed: // both were ready
		return err
	default:
		return errUnconfirmed
	}
}

// notHad says why the lock was not granted.
func (a *App) notHad(ctx context.Context, client *config.Client, name string, f lockFlags, err error) error {
	err = Cause(ctx, err)
	if !errors.Is(err, coord.ErrLocked) || errors.Is(err, coord.ErrUnavailable) {
		return err
	}
	if f.conflictExit == 0 {
		return nil // it is no failure, and cron would send mail about a message
	}
	remedy := "the wait is over"
	if f.noWait {
		remedy = "try --wait"
	}
	return Exit(f.conflictExit, "%s: %s", f.taken(context.WithoutCancel(ctx), client, name, err), remedy)
}

// taken says that the lock is taken, and by whom where the store knows.
func (f *lockFlags) taken(ctx context.Context, client *config.Client, name string, err error) string {
	if f.isShared() {
		return f.takenBySeveral(ctx, client, name)
	}
	text := fmt.Sprintf("the lock %q is taken", name)
	var locked *driver.LockedError
	if errors.As(err, &locked) && locked.Holder != "" {
		return text + " by " + who(driver.NewHolder(locked.Holder, 0, 0))
	}
	asking, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if h, err := client.Inspect(asking, name); err == nil && !h.Released {
		text += " by " + who(h)
	}
	return text
}

// who names a holder.
func who(h coord.Holder) string {
	if h.Name == "" {
		return strconv.Quote(h.ID)
	}
	return fmt.Sprintf("%s (pid %d)", printable(h.Name), h.PID)
}
