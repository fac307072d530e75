package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/coordgo/coord/conformance"
)

const reportLong = `Reads reports that coord conform wrote as JSON, of one store or several, and makes a page
of them: what each store claims and keeps, clause by clause and case by case, and what
was measured. The page is Markdown, or HTML that needs neither network nor scripts.`

// reportPage is coord report: a page of saved reports.
func (a *app) reportPage() *cobra.Command {
	var out []string
	cmd := &cobra.Command{
		Use:     "report FILE.json... --out PAGE",
		Short:   "Make a page of conformance reports",
		Long:    reportLong,
		Example: "  coord report redis.json etcd.json --out stores.html --out stores.md",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.signals.Stop() // a file may be a FIFO, and there is nothing to clear up
			if len(args) == 0 || len(out) == 0 {
				return usage("want reports, and --out PAGE: see %s --help", cmd.CommandPath())
			}
			for _, path := range out {
				if err := conformance.CheckFile(path, len(args)); err != nil {
					return usage("--out: %w", err)
				}
			}
			var reports []*conformance.Report
			for _, path := range args {
				data, err := os.ReadFile(path)
				if err != nil {
					return exit(exitData, "%w", err)
				}
				r, err := conformance.ParseReport(data)
				if err != nil {
					return exit(exitData, "%w", fmt.Errorf("%s: %w", path, err))
				}
				reports = append(reports, r)
			}
			for _, path := range out {
				if err := conformance.WriteFile(path, reports...); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVarP(&out, "out", "o", nil, "the page: .html or .md; may be repeated")
	return cmd
}
