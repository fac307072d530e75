package cli

import (
	"github.com/spf13/cobra"

	"github.com/coordgo/coord/backends/all"
	"github.com/coordgo/coord/driver"
)

const storesLong = `Lists the stores that this program can use, by the scheme of their URLs, and what each
claims of itself. The words are those of "require" in a configuration file;
package driver says what they promise.`

// storeInfo is what --json prints for each scheme.
type storeInfo struct {
	Scheme string        `json:"scheme"`
	Claims driver.Claims `json:"claims"`
}

func (a *App) stores() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stores",
		Short: "List the stores and what they claim",
		Long:  storesLong,
		Example: `  coord stores
  coord stores --json | jq -r '.[] | select(.claims | index("fair")) | .scheme'`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			infos := []storeInfo{}
			for _, scheme := range driver.Schemes() {
				infos = append(infos, storeInfo{scheme, all.Claims(scheme)})
			}
			if asJSON {
				return writeJSON(a.stdout, infos)
			}
			lines := make([][2]string, len(infos))
			for i, info := range infos {
				lines[i] = [2]string{info.Scheme + "://", list(info.Claims)}
			}
			a.printPairs(lines)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}
