package envoy_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/coordgo/coord/server/envoy"
)

var recordedFile = flag.String("recorded", "testdata/recorded.gz", "the file that TestAsRecorded replays")

// recording is what envoyproxy/ratelimit said of a configuration, and answered to requests: random ones over the whole
// grammar, on a clock that was set.
type recording struct {
	Files                                   []string
	Merge, Shadow, Quota, Headers, Metadata bool
	Refused                                 string
	Steps                                   []recordedStep
	Stats                                   map[string]int64
}

// recordedStep has no answer and no error where the recorder says that the answer is not to be compared.
type recordedStep struct {
	T int64           // Unix time in milliseconds
	Q json.RawMessage // request
	R json.RawMessage // answer
	E string          // error
}

func (s *recordedStep) compared() bool { return len(s.R) > 0 || s.E != "" }

// recordings gives those of a file, in order, one at a time.
func recordings(t *testing.T, file string) iter.Seq2[int, recording] {
	t.Helper()
	return func(yield func(int, recording) bool) {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(z)
		lines.Buffer(nil, 1<<20)
		for i := 0; lines.Scan(); i++ {
			var r recording
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			if !yield(i, r) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// replayed is how much was compared.
type replayed struct{ requests, refused, left int }

// replay compares all of a file: the same configurations are taken and refused, and each request has the same answer in
// full, as have the statistics.
func replay(t *testing.T, file string) (n replayed) {
	t.Helper()
	for i, r := range recordings(t, file) {
		if !r.files(t, i) {
			n.refused++
			continue
		}
		synctest.Test(t, func(t *testing.T) { r.replay(t, i) })
		for _, s := range r.Steps {
			if s.compared() {
				n.requests++
			} else {
				n.left++
			}
		}
	}
	return n
}

// The answers in testdata/recorded.gz are of commit f2fb157, on Redis.
func TestAsRecorded(t *testing.T) {
	t.Parallel()
	if n := replay(t, *recordedFile); n.requests < 2000 || n.refused < 50 || n.left > 0 {
		t.Errorf("%+v: is the recording whole?", n)
	}
}

// files parses the files, and reports whether they are taken. Two differences are wanted: a key that stands twice is
// refused here, and in metadata what JSON cannot say.
func (r *recording) files(t *testing.T, i int) bool {
	t.Helper()
	var files []envoy.File
	for j, text := range r.Files {
		files = append(files, envoy.File{Name: fmt.Sprint("f", j), Text: []byte(text)})
	}
	_, err := envoy.Parse(r.Merge, files...)
	switch {
	case err != nil && (strings.Contains(err.Error(), "again: want it once") || strings.Contains(err.Error(), "metadata: a value that JSON cannot say")):
	case (err == nil) != (r.Refused == ""):
		t.Errorf("%d: %v; recorded: %q\n%s", i, err, r.Refused, strings.Join(r.Files, "\n"))
	}
	return err == nil
}

func (r *recording) replay(t *testing.T, i int) {
	section := fmt.Sprintf("serve: {envoy: {files: [DIR], merge_domains: %t, shadow: %t, quota: %t, headers: %t, metadata: %t}}", r.Merge, r.Shadow, r.Quota, r.Headers, r.Metadata)
	k := start(t, section, r.Files...)
	for j, s := range r.Steps {
		time.Sleep(time.Until(time.UnixMilli(s.T)))
		got, err := k.ShouldRateLimit(t.Context(), request(t, string(s.Q)))
		if (err == nil) != (s.E == "") {
			t.Fatalf("%d, %d: %s: %v; recorded: %q", i, j, s.Q, err, s.E)
		}
		if err != nil || !s.compared() {
			continue
		}
		want := new(pb.RateLimitResponse)
		if err := protojson.Unmarshal(s.R, want); err != nil {
			t.Fatal(err)
		}
		spaced(got)
		spaced(want)
		if !proto.Equal(got, want) {
			t.Fatalf("%d, %d: %s:\ngot      %v\nrecorded %v\n%s", i, j, s.Q, got, want, strings.Join(r.Files, "\n"))
		}
	}
	r.measured(t, i, k)
}

// spaced has one space between the fields in the text of an override, where protobuf puts one or two.
func spaced(r *pb.RateLimitResponse) {
	for _, d := range r.GetDynamicMetadata().GetFields()["descriptors"].GetListValue().GetValues() {
		fields := d.GetStructValue().GetFields()
		if limit, ok := fields["limit"]; ok {
			fields["limit"] = structpb.NewStringValue(strings.Join(strings.Fields(limit.GetStringValue()), " "))
		}
	}
}

// measured compares the statistics: here "rate_limit.NAME LEVELS", there "LEVELS.NAME".
func (r *recording) measured(t *testing.T, i int, k *kit) {
	t.Helper()
	got, want, alike := make(map[string]int64), make(map[string]int64), r.alike(t)
	for name, n := range k.meter.seen {
		if name, ok := strings.CutPrefix(name, "rate_limit."); ok {
			name, levels, _ := strings.Cut(name, " ")
			got[alike(levels, name)] += n
		}
	}
	for name, n := range r.Stats {
		last := strings.LastIndex(name, ".")
		want[alike(name[:last], name[last+1:])] += n
	}
	if maps.Equal(got, want) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(merged(got, want))) {
		if got[name] != want[name] {
			t.Errorf("%d: %s: %d; recorded: %d", i, name, got[name], want[name])
		}
	}
	t.Logf("%s", strings.Join(r.Files, "\n"))
}

// alike gives a figure one name for here and there. Two differences are wanted: here an override has its keys alone, and
// an unknown domain no name. There, different overrides may have one name: key "a_b" without a value, and "a" of "b". Then all
// of them are compared as one.
func (r *recording) alike(t *testing.T) func(levels, name string) string {
	t.Helper()
	same := make(map[string]string)
	first := func(name string) string {
		for next, ok := same[name]; ok; next, ok = same[name] {
			name = next
		}
		return name
	}
	for _, s := range r.Steps {
		q := request(t, string(s.Q))
		for _, d := range q.Descriptors {
			if d.Limit == nil {
				continue
			}
			here, there := q.Domain, q.Domain
			for _, e := range d.Entries {
				here, there = here+"."+e.Key, there+"."+e.Key
				if e.Value != "" {
					there += "_" + e.Value
				}
			}
			if here, there = first(here), first(there); here != there {
				same[there] = here
			}
		}
	}
	return func(levels, name string) string {
		if name == "domain_not_found" {
			return name
		}
		return first(levels) + "." + name
	}
}

func merged(a, b map[string]int64) map[string]int64 {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
