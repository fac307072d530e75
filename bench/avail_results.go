package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// availResults are the results of each kind of run under faults, by the names of their workloads. A kind is run by itself,
// so that each has its own date and load.
type availResults map[string]*Results

// readAvailResults reads the results that are there. Without the file there are none.
func readAvailResults(path string) (availResults, error) {
	all := availResults{}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	} else if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for kind, r := range all {
		if r == nil || r.Schema != schema {
			return nil, fmt.Errorf("%s: %s is not of schema %d: run make bench-availability", path, kind, schema)
		}
	}
	return all, nil
}

func (all availResults) write(path string) error {
	return writeJSON(path, all)
}
