// Command testreport reads "go test -json" and tells what a person wants to
// know of it: each package as it begins and ends, with what failed in it, the whole output of what failed, every
// skip with its reason, a line for each store: which version was tested,
// which way, and how many conformance cases passed, and how long all of it took.
//
//	testreport [-matrix FILE] [FILE ...]
//
// It reads its files at the same time, so that several go commands can write to named pipes; without any, its input.
// -matrix is a file to write: what became of each conformance case on each store, a row for each clause.
//
// A test that is skipped without saying "unsupported:" or "unproven:" fails the
// run: nothing is left out in silence. So does a run without tests.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	began := time.Now()
	matrix := flag.String("matrix", "", "write a table of clauses and stores to this `file`")
	flag.Parse()
	r := newReport()
	err := r.readAll(flag.Args())
	if err == nil && *matrix != "" {
		err = r.writeMatrix(*matrix)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
	good := r.print(os.Stdout)
	fmt.Printf("in %v\n", time.Since(began).Round(time.Second))
	if !good {
		os.Exit(1)
	}
}

// readAll reads all files at the same time, or the standard input.
func (r *report) readAll(files []string) error {
	if len(files) == 0 {
		return r.read(os.Stdin, os.Stdout)
	}
	errs := make([]error, len(files))
	var wg sync.WaitGroup
	for i, name := range files {
		wg.Go(func() {
			f, err := os.Open(name)
			if err != nil {
				errs[i] = err
				return
			}
			defer f.Close()
			errs[i] = r.read(f, os.Stdout)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// report is what is known of a run.
type report struct {
	mu         sync.Mutex
	output     map[string][]string // of each test that has not passed
	passed     int
	failed     []string
	skipped    []string // without a reason that counts
	reasons    map[string]int
	unfinished map[string]bool
	stores     map[string]*store // by package and test
}

// store is what a test whose name begins with TestConformance says of the store that it tested.
type store struct {
	way, verdict string
	cases        map[string]string // what became of each, by its id
}

func newReport() *report {
	return &report{
		output: make(map[string][]string), reasons: make(map[string]int),
		unfinished: make(map[string]bool), stores: make(map[string]*store),
	}
}

// read takes in the whole run, and shows packages as they end.
func (r *report) read(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		r.line(lines.Bytes(), out)
	}
	return lines.Err()
}

func (r *report) line(text []byte, out io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if err := json.Unmarshal(text, &e); err != nil {
		fmt.Fprintf(out, "%s\n", text) // a build error, as go test prints it
		return
	}
	r.take(e, out)
}

func (r *report) take(e event, out io.Writer) {
	name := e.Package + " " + e.Test
	switch e.Action {
	case "start":
		r.unfinished[name] = true
		fmt.Fprintf(out, "start %s\n", e.Package)
	case "run":
		r.unfinished[name] = true
	case "output", "build-output":
		r.output[name] = append(r.output[name], e.Output)
		if strings.HasPrefix(e.Test, "TestConformance") && !strings.Contains(e.Test, "/") {
			r.conformance(e)
		}
		if e.Action == "build-output" {
			fmt.Fprint(out, e.Output)
		}
	case "pass", "fail", "skip":
		delete(r.unfinished, name)
		if e.Test == "" {
			r.endPackage(e, out)
		} else {
			r.endTest(e, name)
		}
	}
}

// conformance picks the lines that say which store was tested, and the verdict.
func (r *report) conformance(e event) {
	st := r.storeOf(e.Package, e.Test)
	for _, by := range []string{"testserver: ", "containers: "} {
		if _, way, ok := strings.Cut(e.Output, by); ok {
			st.way = strings.TrimSpace(way)
		}
	}
	if strings.Contains(e.Output, " unproven in ") {
		_, st.verdict, _ = strings.Cut(strings.TrimSpace(e.Output), ": ")
	}
}

func (r *report) storeOf(pkg, test string) *store {
	name := pkg + " " + test
	if r.stores[name] == nil {
		r.stores[name] = &store{way: "embedded", cases: make(map[string]string)}
	}
	return r.stores[name]
}

func (r *report) endPackage(e event, out io.Writer) {
	fmt.Fprintf(out, "%-5s %-55s %6.1fs\n", e.Action, e.Package, e.Elapsed)
	if e.Action != "fail" {
		return
	}
	for _, name := range r.failed {
		if test, ok := strings.CutPrefix(name, e.Package+" "); ok && test != "" {
			fmt.Fprintln(out, "      failed:", test)
		}
	}
	r.failed = append(r.failed, e.Package+" ") // its own output is kept under that, as of a panic or a leak
}

func (r *report) endTest(e event, name string) {
	r.noteCase(e, strings.Join(r.output[name], ""))
	switch e.Action {
	case "pass":
		r.passed++
		delete(r.output, name)
	case "fail":
		r.failed = append(r.failed, name)
	case "skip":
		text := strings.Join(r.output[name], "")
		delete(r.output, name)
		for _, line := range strings.Split(text, "\n") {
			if i := max(strings.Index(line, "unsupported: "), strings.Index(line, "unproven: ")); i >= 0 {
				r.reasons[line[i:]]++
				return
			}
		}
		r.skipped = append(r.skipped, name+": "+strings.TrimSpace(text))
	}
}

// print tells the result, and reports whether it is good.
func (r *report) print(out io.Writer) bool {
	// Where a log of CI is cut off, short texts are left: long ones are mostly what stores have logged.
	slices.SortStableFunc(r.failed, func(a, b string) int { return len(r.output[a]) - len(r.output[b]) })
	for _, name := range r.failed {
		for _, line := range r.output[name] {
			fmt.Fprint(out, line)
		}
	}
	for name := range r.unfinished {
		fmt.Fprintln(out, "never ended:", name)
		for _, line := range r.output[name] {
			fmt.Fprint(out, line)
		}
	}
	fmt.Fprintln(out)
	for _, why := range sorted(r.reasons) {
		fmt.Fprintf(out, "%4d × %s\n", r.reasons[why], why)
	}
	for _, s := range r.skipped {
		fmt.Fprintln(out, "skipped:", s)
	}
	for _, name := range sorted(r.stores) {
		if st := r.stores[name]; st.verdict != "" {
			fmt.Fprintf(out, "store %s (%s)\n", st.verdict, st.way)
		}
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", r.passed, len(r.failed), len(r.skipped))
	return r.passed > 0 && len(r.failed) == 0 && len(r.skipped) == 0 && len(r.unfinished) == 0
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
