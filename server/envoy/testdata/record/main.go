// Command record asks envoyproxy/ratelimit for its answers to random requests of random configurations, on a clock that
// it sets:
//
//	GOWORK=off go run . SEED CONFIGURATIONS REDIS FILE
//
// REDIS is the address of an empty Redis, and FILE is written. The same seed makes the same requests. The original is the
// newest that the module proxy has, of January 2026. recorded.gz is of July, where this was built in a clone:
//
//	git clone https://github.com/envoyproxy/ratelimit && cd ratelimit && git checkout f2fb157
//	mkdir src/record && cp …/server/envoy/testdata/record/*.go src/record
//	go run -tags july ./src/record 8 220 127.0.0.1:6379 recorded.gz
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strconv"

	logger "github.com/sirupsen/logrus"

	"github.com/envoyproxy/ratelimit/src/redis"
)

// step is a request at a time, in Unix milliseconds, with its answer or its error. It has neither where the answer is one
// that January's version gave, and July's would not: the request still counts.
type step struct {
	T        int64           `json:"t"`
	Request  json.RawMessage `json:"q"`
	Response json.RawMessage `json:"r,omitempty"`
	Error    string          `json:"e,omitempty"`
}

// scenario is a configuration: why it was refused, or what it answered and measured.
type scenario struct {
	Files    []string          `json:"files"`
	Merge    bool              `json:"merge,omitempty"`
	Shadow   bool              `json:"shadow,omitempty"`
	Quota    bool              `json:"quota,omitempty"`
	Headers  bool              `json:"headers,omitempty"`
	Metadata bool              `json:"metadata,omitempty"`
	Refused  string            `json:"refused,omitempty"`
	Steps    []step            `json:"steps,omitempty"`
	Stats    map[string]uint64 `json:"stats,omitempty"`
}

var (
	r      *rand.Rand
	client redis.Client
)

func main() {
	if len(os.Args) != 5 {
		panic("usage: record SEED CONFIGURATIONS REDIS FILE")
	}
	seed, err := strconv.ParseInt(os.Args[1], 10, 64)
	n, err2 := strconv.Atoi(os.Args[2])
	if err != nil || err2 != nil {
		panic("SEED and CONFIGURATIONS are numbers")
	}
	logger.SetLevel(logger.PanicLevel)
	r = rand.New(rand.NewSource(seed))
	client = newClient(os.Args[3])
	f, err := os.Create(os.Args[4])
	if err != nil {
		panic(err)
	}
	z, _ := gzip.NewWriterLevel(f, 9)
	record(n, z)
	for _, c := range []io.Closer{z, f} {
		if err := c.Close(); err != nil {
			panic(err)
		}
	}
}

// record writes n configurations, one a line, and says what is in them.
func record(n int, w io.Writer) {
	lines := json.NewEncoder(w)
	requests, over, unlike, refused := 0, 0, 0, 0
	for i := range n {
		s := run(i)
		if err := lines.Encode(s); err != nil {
			panic(err)
		}
		if s.Refused != "" {
			refused++
		}
		requests += len(s.Steps)
		for _, st := range s.Steps {
			if bytes.Contains(st.Response, []byte("OVER_LIMIT")) {
				over++
			}
			if st.Response == nil && st.Error == "" {
				unlike++
			}
		}
	}
	fmt.Printf("%d configurations, %d of them refused, %d requests, %d with OVER_LIMIT, %d without the answer\n", n, refused, requests, over, unlike)
}
