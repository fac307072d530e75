package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// The bill of this test's own binary can be read again, names what is linked into it, and is the same each time.
func TestBill(t *testing.T) {
	var first, again bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &again} {
		if err := run([]string{"v1.2.3", os.Args[0]}, out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), again.Bytes()) {
		t.Error("two bills of one program differ")
	}
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(&first, cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	if p := bom.Metadata.Component; p.Version != "v1.2.3" || !strings.HasPrefix(p.PackageURL, "pkg:golang/") {
		t.Errorf("the program is %+v", p)
	}
	found := map[string]cdx.Component{}
	for _, c := range *bom.Components {
		found[c.Name] = c
	}
	if c := found["github.com/CycloneDX/cyclonedx-go"]; !strings.HasPrefix(c.PackageURL, "pkg:golang/github.com/CycloneDX/cyclonedx-go@v") {
		t.Errorf("cyclonedx-go is %+v", c)
	}
	if c := found["std"]; c.Version == "" || strings.HasPrefix(c.Version, "go") {
		t.Errorf("the standard library is %+v", c)
	}
}

func TestBadInput(t *testing.T) {
	for _, args := range [][]string{nil, {"v1"}, {"v1", "main.go"}, {"v1", "no-such-file"}} {
		if err := run(args, new(bytes.Buffer)); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
