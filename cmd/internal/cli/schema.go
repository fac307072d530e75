package cli

import (
	"github.com/spf13/cobra"

	"github.com/coordgo/coord/backends/postgres"
)

const schemaLong = `Prints the SQL that makes the tables of a store. coord runs it before it first writes to a store
that has none; print it where programs may not make tables, and run it as a user who may. To run
it again changes nothing. postgres is the one store with tables.`

func (a *App) schema() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "schema postgres",
		Short: "Print the SQL that makes a store's tables",
		Long:  schemaLong,
		Example: `  coord schema postgres | psql -d app
  coord schema postgres --name locks`,
		Args:      cobra.ArbitraryArgs,
		ValidArgs: []string{"postgres"},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] != "postgres" {
				return Usage("want the name of a store with tables: postgres")
			}
			text, err := postgres.Schema(name)
			if err != nil {
				return Usage("--name: %v", err)
			}
			a.Printf("%s", text)
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", postgres.DefaultSchema, "name of the schema, as schema= in the URL")
	NoFiles(cmd, "name")
	return cmd
}
