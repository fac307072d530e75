package main

import (
	"bytes"
	"errors"
	"os"
	"strings"

	"github.com/coordgo/coord/conformance"
)

const matrixHead = `# Compatibility

This table counts, for each clause of the [contract](../contract.md), the [cases](conformance-cases.md) of the
[conformance suite](../conformance.md) and what became of them on each store. ` + "`make nightly`" + ` writes it.

`

// noteCase keeps what became of a case: "TestConformance/LOCK-07/what-it-shows".
func (r *report) noteCase(e event, said string) {
	test, rest, _ := strings.Cut(e.Test, "/")
	id, name, ok := strings.Cut(rest, "/")
	if !ok || strings.Contains(name, "/") || !strings.HasPrefix(test, "TestConformance") {
		return
	}
	outcome := e.Action
	for _, why := range []conformance.Outcome{conformance.Unsupported, conformance.Unproven} {
		if e.Action == "skip" && strings.Contains(said, string(why)+": ") {
			outcome = string(why)
		}
	}
	r.storeOf(e.Package, test).cases[id] = outcome
}

// writeMatrix writes the table of all stores.
func (r *report) writeMatrix(path string) error {
	var reports []*conformance.Report
	for _, name := range sorted(r.stores) {
		st := r.stores[name]
		product, _, ok := strings.Cut(st.verdict, ": ")
		if !ok {
			continue // its test did not end
		}
		one := &conformance.Report{Store: conformance.Store{Name: product}}
		for _, c := range conformance.Cases() {
			if outcome := st.cases[c.ID]; outcome != "" {
				one.Results = append(one.Results, conformance.Result{Case: c, Outcome: conformance.Outcome(outcome)})
			}
		}
		reports = append(reports, one)
	}
	if len(reports) == 0 {
		return errors.New("no conformance test told of a store: there is no table to write")
	}
	var b bytes.Buffer
	b.WriteString(matrixHead)
	if err := conformance.WriteTable(&b, reports...); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
