package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coordgo/coord/internal/bench"
)

// availOptions are what the flags of the word availability set.
type availOptions struct {
	seeds   int
	forEach time.Duration
	stores  []string
	kinds   []*workload
	out     string
	page    string
	only    bool
	log     io.Writer
}

func parseAvail(args []string) (*availOptions, error) {
	o := &availOptions{log: os.Stderr}
	flags := flag.NewFlagSet("bench availability", flag.ContinueOnError)
	flags.IntVar(&o.seeds, "seeds", 5, "how many plans of faults each subject meets")
	flags.DurationVar(&o.forEach, "for", 40*time.Second, "how long a plan is")
	stores := flags.String("stores", "redis,etcd,zookeeper", "the stores, by commas")
	kinds := flags.String("kinds", "locks,leaders,writers", "what is run, by commas; the results of what is not stay as they are")
	flags.StringVar(&o.out, "out", "results/availability.json", "where the results are written, and read with -only-page")
	flags.StringVar(&o.page, "docs", "", "the directory whose availability.md is written; none by default")
	flags.BoolVar(&o.only, "only-page", false, "measure nothing: make the page of the results that are there")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.stores = strings.Split(*stores, ",")
	for kind := range strings.SplitSeq(*kinds, ",") {
		w, ok := map[string]*workload{"locks": availWorkload, "leaders": leadWorkload, "writers": writeWorkload}[kind]
		if !ok {
			return nil, fmt.Errorf("no kind %q: want some of locks, leaders and writers", kind)
		}
		o.kinds = append(o.kinds, w)
	}
	if o.seeds < 1 || o.forEach < time.Second || flags.NArg() > 0 {
		return nil, errors.New("want at least one seed, a second and no arguments")
	}
	return o, nil
}

func availMain(ctx context.Context, args []string) error {
	o, err := parseAvail(args)
	if err != nil {
		return err
	}
	results, err := readAvailResults(o.out)
	if err != nil {
		return err
	}
	if !o.only {
		for _, work := range o.kinds {
			if results[work.name], err = o.measure(ctx, work); err != nil {
				return err
			}
			if err := results.write(o.out); err != nil {
				return err
			}
		}
	}
	if o.page == "" {
		return nil
	}
	if len(results) == 0 {
		return fmt.Errorf("%s: no results", o.out)
	}
	return availabilityPage.write(o.page, availSection(results), nil)
}

// measure runs every subject of a kind through every plan: A B, A B. It stops the stores before it returns.
func (o *availOptions) measure(ctx context.Context, work *workload) (r *Results, err error) {
	tb := newTB(ctx)
	defer tb.end()
	defer tb.catch(&err)
	r = &Results{
		Schema: schema, Date: time.Now().UTC().Truncate(time.Second), Machine: bench.ThisMachine(),
		Libraries: versions(subjects()), Stores: map[string]string{}, Rounds: o.seeds, ForMS: o.forEach.Milliseconds(),
	}
	for _, name := range o.stores {
		st, err := openStore(tb, name)
		if err != nil {
			return nil, err
		}
		r.Stores[name] = st.version
		rows, err := o.onStore(ctx, work, st)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, rows...)
	}
	r.LoadAfter = bench.LoadAverage()
	r.Took = time.Since(r.Date).Round(time.Second).Seconds()
	r.Complete = o.seeds >= 5 && o.forEach >= 40*time.Second && len(o.stores) == 3
	return r, nil
}

func (o *availOptions) onStore(ctx context.Context, work *workload, st *store) (rows []Row, err error) {
	subjects := slices.DeleteFunc(availSubjects(), func(s availSubject) bool { return s.store != st.name || s.work != work })
	values := make([]map[string][]float64, len(subjects))
	for seed := range o.seeds {
		for i, sub := range subjects {
			key := fmt.Sprintf("%s-%d-%d", work.name, seed, i)
			f, err := availability(ctx, sub, st, key, o.forEach, uint64(seed+1))
			if err != nil {
				return nil, fmt.Errorf("%s on %s, seed %d: %w", sub.name, st.name, seed+1, err)
			}
			fmt.Fprintf(o.log, "%-10s %-20s seed %d %s\n", st.name, sub.name, seed+1, work.told(f, nil))
			if values[i] == nil {
				values[i] = map[string][]float64{}
			}
			for name, v := range f {
				values[i][name] = append(values[i][name], rounded(v))
			}
		}
	}
	for i, sub := range subjects {
		row := Row{Workload: work.name, Store: st.name, Subject: sub.name, Kind: sub.kind(), About: sub.ttl.String(), Figures: map[string]bench.Spread{}, Rounds: values[i]["grants"]}
		for name, v := range values[i] {
			row.Figures[name] = bench.SpreadOf(v)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (s availSubject) kind() bench.BarKind {
	if s.name == "coord" {
		return bench.Ours
	}
	return bench.Peer
}

func availSubjectNamed(work, store, name string) (availSubject, bool) {
	all := availSubjects()
	i := slices.IndexFunc(all, func(s availSubject) bool { return s.work.name == work && s.store == store && s.name == name })
	if i < 0 {
		return availSubject{}, false
	}
	return all[i], true
}
