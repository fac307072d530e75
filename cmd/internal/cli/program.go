package cli

import (
	"context"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/coordgo/coord/cmd/internal/child"
)

// Program is what a run of coord has of its process.
type Program struct {
	Args           []string // without the name of the program
	Env            []string // as os.Environ gives it
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Terminal       bool // a person reads standard error
	Runner         Runner
	// CompleteIn is for how long the completion of a name may ask the store.
	CompleteIn time.Duration
	// Silence drops the warnings of the library, which are the process's; nil: nothing has to be done.
	Silence func()
}

// Runner runs the command that is given after --.
type Runner interface {
	// Run is child.Run.
	Run(cmd child.Command, env []string, lock child.Lock, l child.Limits, sigs *child.Signals, warn func(error)) (code int, told child.Reason, err error)
	// Become is child.Become.
	Become(cmd child.Command, sigs *child.Signals) (code int, err error)
}

// dropLogs is Program.Silence of this process.
func dropLogs() { log.SetOutput(io.Discard) }

// processes runs commands as processes, on the input, output and environment of this one.
type processes struct{}

func (processes) Run(cmd child.Command, env []string, lock child.Lock, l child.Limits, sigs *child.Signals, warn func(error)) (int, child.Reason, error) {
	return child.Run(cmd, env, lock, l, sigs, warn)
}

func (processes) Become(cmd child.Command, sigs *child.Signals) (int, error) {
	return child.Become(cmd, sigs)
}

// Main runs the command line of t in this process and gives the exit status. Errors are
// told on standard error, each in one line.
func Main(t Tool, args []string) int {
	p := Program{
		Args: args, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Terminal: term.IsTerminal(int(os.Stderr.Fd())),
		Runner: processes{}, CompleteIn: time.Second, Silence: dropLogs,
	}
	stderr := newMessages(ownStderr())
	log.SetOutput(stderr) // the warnings of the library too
	return run(context.Background(), t, p, child.Listen(), stderr)
}

// Run is Main of a program that need not be a process. It gets no signals: ctx ends by their
// cause, a [child.Interrupted].
func Run(ctx context.Context, t Tool, p Program) int {
	return run(ctx, t, p, new(child.Signals), newMessages(p.Stderr))
}

func run(ctx context.Context, t Tool, p Program, signals *child.Signals, stderr *messages) int {
	a := &App{Program: p, tool: t, signals: signals, stdout: &output{w: p.Stdout}, stderr: stderr}
	a.store.env, a.store.names = a.lookup, a.names
	defer a.stderr.end()
	ctx, stop := a.signals.Context(ctx)
	defer stop()
	root := a.root(stop)
	root.SetArgs(append([]string{}, p.Args...)) // nil would be those of the process
	cmd, err := root.ExecuteContextC(ctx)
	return a.report(cmd, a.stdout.check(err))
}

// names are those of the variables of the environment.
func (p *Program) names() (names []string) {
	for _, pair := range p.Env {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	return names
}

// lookup is os.LookupEnv.
func (p *Program) lookup(name string) (value string, set bool) {
	for _, pair := range p.Env {
		if k, v, ok := strings.Cut(pair, "="); ok && k == name {
			value, set = v, true // the last one counts
		}
	}
	return value, set
}

// getenv is os.Getenv.
func (p *Program) getenv(name string) string {
	value, _ := p.lookup(name)
	return value
}

// terminal is the number of standard output, if that is a terminal.
func (p *Program) terminal() (fd int, ok bool) {
	f, ok := p.Stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	return int(f.Fd()), true
}
