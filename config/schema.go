package config

import (
	_ "embed"
	"slices"
)

//go:embed coord.schema.json
var schema []byte

// Schema gives the JSON schema (draft 7) of the file, for editors. What Parse accepts it
// accepts; Parse also refuses what a schema cannot see, such as values that
// contradict each other.
func Schema() []byte { return slices.Clone(schema) }
