package conformance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// CheckFile says whether [WriteFile] could write a report to a file of that name.
func CheckFile(path string) error {
	if ext := filepath.Ext(path); ext != ".json" && ext != ".md" {
		return fmt.Errorf("conformance: %s: want a name that ends in .json or .md", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("conformance: %s: its directory: %w", path, err)
	} else if !info.IsDir() {
		return fmt.Errorf("conformance: %s: want it in a directory", path)
	}
	return nil
}

// WriteFile writes a report as the ending of the name says: .json, all of it; .md, a table, and why cases did not pass.
func WriteFile(path string, r *Report) error {
	if err := CheckFile(path); err != nil {
		return err
	}
	var b bytes.Buffer
	var err error
	if filepath.Ext(path) == ".json" {
		var data []byte
		data, err = r.JSON()
		b.Write(data)
	} else {
		err = writeMarkdown(&b, r)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
