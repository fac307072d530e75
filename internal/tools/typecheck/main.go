// Command typecheck reports what does not compile on other platforms: it checks the types of packages and their tests, and
// generates no code. A build for each platform takes four times as long.
//
//	typecheck -dir ../.. -packages "./... ./backends/redis/..." darwin/arm64 linux/386
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	dir := flag.String("dir", ".", "the directory of the workspace")
	patterns := flag.String("packages", "./...", "the patterns of the packages, with spaces between them")
	flag.Parse()
	os.Unsetenv("GOWORK") // which is off for this command alone
	failed := flag.NArg() == 0
	for _, platform := range flag.Args() {
		n, mistakes := check(*dir, platform, strings.Fields(*patterns))
		for _, m := range mistakes {
			fmt.Fprintf(os.Stderr, "%s: %v\n", platform, m)
		}
		fmt.Printf("typecheck: %s: %d packages\n", platform, n)
		failed = failed || n == 0 || len(mistakes) > 0
	}
	if failed {
		os.Exit(1)
	}
}

// check loads packages for a platform such as linux/arm. n is how many there are.
func check(dir, platform string, patterns []string) (n int, mistakes []error) {
	system, arch, _ := strings.Cut(platform, "/")
	list, err := packages.Load(&packages.Config{
		Mode:  packages.LoadAllSyntax,
		Dir:   dir,
		Env:   append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0"),
		Tests: arch != "386" && arch != "arm", // some tests have numbers that 32 bits do not hold
	}, patterns...)
	if err != nil {
		return 0, []error{err}
	}
	packages.Visit(list, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			mistakes = append(mistakes, e)
		}
	})
	return len(list), mistakes
}
