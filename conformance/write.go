package conformance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// CheckFile says whether [WriteFile] could write n reports to a file of that name.
func CheckFile(path string, n int) error {
	switch ext := filepath.Ext(path); {
	case ext == ".json" && n != 1:
		return fmt.Errorf("conformance: %s: JSON is of one report, not of %d", path, n)
	case ext != ".json" && ext != ".md" && ext != ".html":
		return fmt.Errorf("conformance: %s: want a name that ends in .json, .md or .html", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("conformance: %s: its directory: %w", path, err)
	} else if !info.IsDir() {
		return fmt.Errorf("conformance: %s: want it in a directory", path)
	}
	return nil
}

// WriteFile writes reports as the ending of the name says: .json, one report; .md or .html,
// one or several.
func WriteFile(path string, reports ...*Report) error {
	if err := CheckFile(path, len(reports)); err != nil {
		return err
	}
	var b bytes.Buffer
	var err error
	switch filepath.Ext(path) {
	case ".json":
		var data []byte
		data, err = reports[0].JSON()
		b.Write(data)
	case ".md":
		b.WriteString("# Conformance\n\n")
		err = WriteMarkdown(&b, reports...)
	default:
		err = WriteHTML(&b, reports...)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
