// Command sbom writes the bill of materials of a Go program, as CycloneDX in JSON, to standard output: the modules that
// are linked into the program, and the version of Go. It reads them from the program, so that they are those that it has.
// The same program gives the same bytes.
//
//	sbom VERSION BINARY
//
// VERSION is that of the program, and of the modules that are built from its own repository.
package main

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: sbom VERSION BINARY")
	}
	info, err := buildinfo.ReadFile(args[1])
	if err != nil {
		return err
	}
	return cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bill(info, args[0]))
}

// bill is what the program contains. It has no time and no serial number, which would differ each time.
func bill(info *debug.BuildInfo, version string) *cdx.BOM {
	program := component(cdx.ComponentTypeApplication, info.Path, info.Main.Path, version)
	parts := []cdx.Component{component(cdx.ComponentTypeLibrary, "std", "std", info.GoVersion)}
	for _, m := range info.Deps {
		from, v := m.Path, m.Version
		switch {
		case m.Replace != nil && m.Replace.Version == "": // a directory of this repository
			v = version
		case m.Replace != nil:
			from, v = m.Replace.Path, m.Replace.Version
		}
		parts = append(parts, component(cdx.ComponentTypeLibrary, m.Path, from, v))
	}
	slices.SortFunc(parts, func(a, b cdx.Component) int { return cmp.Compare(a.Name, b.Name) })
	var refs []string
	for _, p := range parts {
		refs = append(refs, p.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &program}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	return bom
}

// component has the package URL of a module, as databases of vulnerabilities know it.
func component(kind cdx.ComponentType, name, module, version string) cdx.Component {
	if name == "std" {
		version = strings.TrimPrefix(version, "go")
	}
	url := "pkg:golang/" + module + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{BOMRef: url, Type: kind, Name: name, Version: version, PackageURL: url}
}
