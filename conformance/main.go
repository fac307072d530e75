package conformance

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"

	"github.com/coordgo/coord/conformance/internal/report"
	"github.com/coordgo/coord/driver"
)

// The exit statuses of [Main].
const (
	exitKept    = 0   // every case that ran passed, or was declared a deviation
	exitBroken  = 1   // a case failed
	exitUsage   = 2   // the command line makes no sense
	exitHarness = 3   // the store did not open, or has gone, or a report was not written
	exitStopped = 130 // by a signal
)

// Main is the whole of a program that proves an adapter:
//
//	func main() { conformance.Main(mystore.Open, mystore.Claims...) }
//
// Its user gives the URL of a store, and flags; --help tells them. Without claims, what
// the store claims is proved. The program starts itself again for the cases about processes
// that die. It exits with 0 if every case that ran passed, 1 if a case failed, 2 if the
// command line makes no sense, 3 if the store did not open or a report was not written, and 130 if a
// signal ended it.
func Main(open driver.OpenFunc, claims ...driver.Claim) {
	if raw, ok := os.LookupEnv(workerEnv); ok {
		register(raw, open)
	}
	WorkerMain()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := command(ctx, os.Args, os.Stdout, os.Stderr, open, claims)
	stop()
	os.Exit(status)
}

// register makes the scheme of a URL known to this process, in which workers open the store.
func register(raw string, open driver.OpenFunc) {
	u, err := driver.ParseURL(raw)
	if err == nil && u.Scheme != "" && !slices.Contains(driver.Schemes(), u.Scheme) {
		driver.Register(u.Scheme, open)
	}
}

// flags are what the user of a Main says.
type flags struct {
	url, run string
	noProxy  bool
	command  Command
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer, open driver.OpenFunc, claims driver.Claims) int {
	complain := func(status int, err error) int {
		fmt.Fprintf(stderr, "%s: %v\n", args[0], err)
		return status
	}
	f, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitKept
	case err != nil:
		return complain(exitUsage, err)
	}
	u, err := driver.ParseURL(f.url)
	if err != nil {
		return complain(exitUsage, errors.New("the store's URL: want a form like mystore://host:port"))
	}
	register(f.url, open)
	h, err := URLHarness(ctx, open, u, claims)
	if err != nil {
		return complain(exitHarness, err)
	}
	if f.noProxy {
		h.Faults = nil
	}
	c := f.command
	c.Out, c.Suite.Harness = stdout, h
	c.Suite.Alone = fmt.Sprintf("%s --seed {seed} --run '^{case}$' '%s'", args[0], driver.RedactURL(f.url))
	report, err := c.Run(ctx)
	switch {
	case ctx.Err() != nil:
		return complain(exitStopped, errors.New("stopped"))
	case errors.Is(err, ErrNoCase):
		return complain(exitUsage, err)
	case err != nil:
		return complain(exitHarness, err)
	case report.Failed():
		return exitBroken
	}
	return exitKept
}

// texts is a flag that may be given more than once.
type texts []string

func (t *texts) String() string     { return report.Join(*t) }
func (t *texts) Set(s string) error { *t = append(*t, s); return nil }

func parseFlags(args []string, stderr io.Writer) (*flags, error) {
	var f flags
	s := &f.command.Suite
	fs := flag.NewFlagSet(args[0], flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintf(stderr, "usage: %s [flags] URL\n\nProves that the store of that URL keeps the contract of coord. Exits with 0 if it does, as\nfar as was tried, 1 if not, 2 on a mistake here, 3 if the store does not open.\n\n", args[0])
		fs.PrintDefaults()
	}
	fs.BoolVar(&s.Fast, "fast", false, "leave slow cases out")
	fs.StringVar(&f.run, "run", "", "only the cases whose id, or id/name, matches this regular expression")
	fs.Var((*texts)(&f.command.Reports), "report", "write the report to this `file`, as its ending says: .json or .md; may be repeated")
	fs.Uint64Var(&s.Seed, "seed", 0, "seed of what is random in the cases (default: a random one)")
	fs.IntVar(&s.Parallel, "parallel", DefaultParallel, "how many cases run at a time")
	fs.BoolVar(&f.noProxy, "no-proxy", false, "make no network faults: for stores whose clients do not stay with the address of the URL")
	fs.BoolVar(&f.command.Verbose, "verbose", false, "tell every case, not only failures")
	if err := fs.Parse(args[1:]); err != nil {
		return nil, err
	}
	f.url = fs.Arg(0)
	var err error
	switch {
	case fs.NArg() != 1:
		return nil, fmt.Errorf("want one URL, not %d: see --help", fs.NArg())
	case s.Parallel < 1:
		return nil, fmt.Errorf("--parallel %d: want 1 or more", s.Parallel)
	}
	for _, path := range f.command.Reports {
		err = cmp.Or(err, CheckFile(path))
	}
	only, rerr := Matching(f.run)
	s.Only = only
	return &f, cmp.Or(err, rerr)
}

// Matching selects the cases whose id, or full name, matches a regular expression. "" selects all.
func Matching(pattern string) (func(Case) bool, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("--run: %w", err)
	}
	return func(c Case) bool { return re.MatchString(c.ID) || re.MatchString(c.FullName()) }, nil
}

// URLHarness reaches a store by its URL. Workers, other processes, open it by coord.Open: the
// scheme has to be registered. Where the URL is of one address without TLS, network faults are
// made by a proxy before it. Without claims it takes those that the store makes.
func URLHarness(ctx context.Context, open driver.OpenFunc, u *url.URL, claims driver.Claims) (Harness, error) {
	own := *u // an OpenFunc may keep what it is given
	b, err := open(ctx, &own)
	if err != nil {
		return Harness{}, fmt.Errorf("open %s: %w", driver.RedactURL(u.String()), err)
	}
	made := b.Info().Claims
	if err := b.Close(); err != nil {
		return Harness{}, err
	}
	if len(claims) == 0 {
		claims = made
	}
	openAt := func(tb TB, at url.URL) driver.Backend {
		b, err := open(tb.Context(), &at)
		if err != nil {
			tb.Fatalf("open: %v", err)
		}
		return b
	}
	h := Harness{Open: func(tb TB) driver.Backend { return openAt(tb, *u) }, Claims: claims}
	h.Embedded = u.Port() == "" && !claims.Has(driver.ScopeHosts)
	if !claims.Has(driver.ScopeProcess) {
		h.WorkerURL = u.String()
	}
	if u.Port() != "" && !strings.ContainsAny(u.Host, ",") && !strings.Contains(u.Scheme, "+") {
		h.Faults = TCPFaults(u.Host, func(tb TB, addr string) driver.Backend {
			through := *u
			through.Host = addr
			return openAt(tb, through)
		})
	}
	return h, nil
}
