// Package cli is the command line of coord: one file per command. Its [Tool]
// is what coord-conform has as well: the flags that name a store, help, output,
// messages and exit statuses.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord/cmd/internal/child"
)

// Tool is a program of this module: its help and its commands.
type Tool struct {
	Name, Short, Long, Example string
	// Commands gives those that run in the process of a. A command that runs others calls stop before it hands the
	// signals over.
	Commands func(a *App, stop func()) []Group
}

// Group is commands that help shows under one title.
type Group struct {
	Title    string
	Commands []*cobra.Command
}

// Coord is the command coord.
func Coord() Tool {
	return Tool{"coord", "Distributed locks and rate limits for shell commands", rootLong, rootExample, func(a *App, stop func()) []Group {
		return []Group{
			{"Run under a lock", []*cobra.Command{a.lock(stop), a.lead(stop), a.acquireLease(), a.releaseLease()}},
			{"Limit a rate", []*cobra.Command{a.limit(stop)}},
			{"Serve other languages", []*cobra.Command{a.serve()}},
			{"See and break", []*cobra.Command{a.status(), a.watch(), a.breakLock()}},
			{"Choose and check a store", []*cobra.Command{a.demo(), a.demoWorker(), a.stores(), a.schema(), a.doctor(), a.config()}},
		}
	}}
}

// App is what the commands share.
type App struct {
	Program
	tool    Tool
	store   storeFlags
	signals *child.Signals
	stdout  *output
	stderr  *messages
}

// Tree gives the commands of t for who describes them. It is not to be run.
func Tree(t Tool) *cobra.Command {
	a := &App{tool: t, stdout: &output{w: os.Stdout}, stderr: newMessages(os.Stderr)}
	return a.root(func() {})
}

const rootLong = `coord holds distributed locks and limits rates for shell commands, on the store
of your choice.

The store is, in this order: --url or --local, COORD_URL, or the url in the file that
--config names. --local is a directory of this user: it keeps out the processes of this
machine alone. A password is better kept in COORD_URL than in --url, where others can
read it in the list of processes.

Errors are one line on standard error, with --json {"error":"…","status":69}. coord help
exit-codes lists the exit status.`

const rootExample = `  # see it work, in ten seconds
  coord demo

  # one backup at a time, on all machines that use this Redis
  export COORD_URL=redis://redis.internal:6379
  coord lock backup --no-wait -- pg_dump -f /backup/db.sql app

  # at most 2000 calls in any minute
  coord limit supplier --rate 2000/1m --wait 10s -- curl -fsS https://api.example.com/`

// root builds the commands.
func (a *App) root(stop func()) *cobra.Command {
	root := &cobra.Command{
		Use:           a.tool.Name,
		Short:         a.tool.Short,
		Long:          a.tool.Long,
		Example:       a.tool.Example,
		Args:          command,
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.Version = readVersion().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if strings.Contains(err.Error(), ": time: ") {
			err = fmt.Errorf("%w: want a number and a unit, such as 90s or 1h30m, at most 2562047h", err)
		}
		return Usage("%w: see %s --help", err, cmd.CommandPath())
	})
	root.PersistentFlags().StringVar(&a.store.url, "url", "", "store, such as redis://host:6379/0 (default COORD_URL, or the url of --config)")
	root.PersistentFlags().BoolVar(&a.store.local, "local", false, "use a directory of this user, for processes of this machine alone")
	root.PersistentFlags().StringVar(&a.store.file, "config", "", "coord.yaml with store, lock defaults and limits")
	NoFiles(root, "url")
	for i, g := range append(a.tool.Commands(a, stop), Group{"This program", []*cobra.Command{a.version(), exitCodes()}}) {
		id := strconv.Itoa(i)
		root.AddGroup(&cobra.Group{ID: id, Title: g.Title + ":"})
		root.SetHelpCommandGroupID(id) // the last one counts
		root.SetCompletionCommandGroupID(id)
		for _, cmd := range g.Commands {
			cmd.GroupID = id
			root.AddCommand(cmd)
		}
	}
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				topic, rest, _ := root.Find(args) // what is not found is in rest
				return command(topic, rest)
			}
		case "completion":
			cmd.Args, cmd.RunE = none, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			cmd.Example = fmt.Sprintf("  source <(%[1]s completion bash)\n  %[1]s completion zsh > \"${fpath[1]}/_%[1]s\"", a.tool.Name)
		}
	}
	return root
}

// NoFiles keeps the shell from completing a flag with the names of files.
func NoFiles(cmd *cobra.Command, flag string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	if err != nil {
		panic(err) // the flag does not exist: a mistake in this package
	}
}

// command is the argument check of coord itself: what is left is not a command.
func command(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see " + cmd.CommandPath() + " --help"
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = "did you mean " + strings.Join(similar, " or ") + "?"
	}
	return Usage("unknown command %q: %s", args[0], hint)
}

// name is the argument check of commands that take the name of a lock or limit.
func name(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return Usage("want one NAME, not %d arguments: see %s --help", len(args), cmd.CommandPath())
	}
	return nil
}

// none is the argument check of commands that take none.
func none(cmd *cobra.Command, args []string) error {
	if len(args) != 0 {
		return Usage("unexpected argument %q: see %s --help", args[0], cmd.CommandPath())
	}
	return nil
}

// nameAndCommand splits NAME -- CMD ARGS. The command is nil where there is none.
func nameAndCommand(cmd *cobra.Command, args []string) (name string, command []string, err error) {
	dash := cmd.ArgsLenAtDash()
	names := args
	if dash >= 0 {
		names, command = args[:dash], args[dash:]
		if len(command) == 0 {
			return "", nil, Usage("no command after --: see %s --help", cmd.CommandPath())
		}
	}
	switch {
	case len(names) == 0:
		return "", nil, Usage("no NAME: see %s --help", cmd.CommandPath())
	case len(names) > 1 && dash < 0:
		return "", nil, Usage("put -- before the command: %s %s -- %s …", cmd.CommandPath(), names[0], names[1])
	case len(names) > 1:
		return "", nil, Usage("unexpected argument %q: want one NAME before --", names[1])
	}
	return names[0], command, readable(names[0])
}

// readable refuses to take what nobody would see: a name that was read from a file with its line break is another name.
func readable(name string) error {
	if strings.ContainsFunc(name, unicode.IsControl) {
		return Usage("NAME %q has a line break or another control character: leave it out", name)
	}
	return nil
}

// report tells the error of cmd, in JSON to whoever asked cmd for that, and gives the exit status.
func (a *App) report(cmd *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	code, text := classify(err)
	asJSON, _ := cmd.Flags().GetBool("json") // most commands have no such flag
	switch {
	case text == "":
	case asJSON:
		_ = writeJSONLine(a.stderr, errorStatus{text, code}) // messages take all
	default:
		fmt.Fprintln(a.stderr, a.tool.Name+": "+text)
	}
	return code
}

// errorStatus is what --json prints of an error.
type errorStatus struct {
	Error  string `json:"error"`
	Status int    `json:"status"`
}

// Cause is the signal that ended ctx, or err.
func Cause(ctx context.Context, err error) error {
	var interrupted child.Interrupted
	if err != nil && errors.As(context.Cause(ctx), &interrupted) {
		return interrupted
	}
	return err
}
