package cli

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord/config"
)

// afterName completes NAME -- CMD ARGS: the name by names, the command by programs of the path,
// and what follows it by files, as a shell does without us.
func (a *App) afterName(names func(ctx context.Context, begun string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return beginning(begun, names(cmd.Context(), begun)), cobra.ShellCompDirectiveNoFileComp
		case len(args) == 1 && !strings.ContainsRune(begun, filepath.Separator):
			return beginning(begun, a.programs()), cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// beginning are the words that begin so.
func beginning(begun string, words []string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, begun) })
}

// completesHeld completes names by those that are held: most of them, or any number.
func (a *App) completesHeld(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.heldNames(cmd.Context(), begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// mostHeldNames bounds what a completion shows.
const mostHeldNames = 100

// heldNames are those of locks that are held and begin so, as far as the store can list and does so in time.
func (a *App) heldNames(ctx context.Context, begun string) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, a.CompleteIn)
	defer cancel()
	client, err := a.open(ctx)
	if err != nil {
		return nil // whoever runs the command is told
	}
	defer client.Close()
	for name, err := range client.List(ctx, begun) {
		if err != nil || len(names) == mostHeldNames {
			break
		}
		if printable(name) == name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// limitNames are the limits of the file that --config names.
func (a *App) limitNames(ctx context.Context, _ string) []string {
	if a.store.file == "" {
		return nil
	}
	cfg, err := config.LoadEnv(ctx, a.store.file, a.lookup)
	if err != nil {
		return nil // whoever runs the command is told
	}
	return slices.Sorted(maps.Keys(cfg.Limits))
}

// programs are those of the path, each once.
func (a *App) programs() []string {
	found := make(map[string]bool)
	for _, dir := range filepath.SplitList(a.getenv("PATH")) {
		entries, _ := os.ReadDir(dir) // one that is not there has none
		for _, e := range entries {
			info, err := os.Stat(filepath.Join(dir, e.Name())) // through links
			if err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0) {
				found[e.Name()] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
