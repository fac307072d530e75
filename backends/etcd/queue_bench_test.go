package etcd

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordgo/coord"
	"github.com/coordgo/coord/driver"
	"github.com/coordgo/coord/internal/testserver"
)

// BenchmarkLongLine has so many fair waiters of four clients come at once, and have the lock one after the other; and
// tells what each of them takes of the server, in the queue and when it is served.
func BenchmarkLongLine(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 2000} {
		b.Run(fmt.Sprintf("waiters=%d", n), func(b *testing.B) {
			for b.Loop() {
				herd(b, n)
			}
		})
	}
}

func herd(b *testing.B, n int) {
	srv := testserver.Etcd(b)
	holder := connect(b, srv.Addr)
	r := request("holder", time.Minute)
	must[driver.Grant](b)(holder.TryLock(b.Context(), "k", r))
	var stores []*backend
	var clients []*coord.Client
	for range 4 {
		s := connect(b, srv.Addr)
		c := must[*coord.Client](b)(coord.New(s))
		stores, clients = append(stores, s), append(clients, c)
		b.Cleanup(func() { c.Close() })
	}
	var served, failed atomic.Int64
	var waiters sync.WaitGroup
	from, busy := time.Now(), cpuOf(b, srv.Pid())
	lap := func(what string) {
		now, cpu := time.Now(), cpuOf(b, srv.Pid())
		b.ReportMetric(float64(now.Sub(from).Microseconds())/float64(n), what+"-µs/waiter")
		b.ReportMetric(float64((cpu-busy).Microseconds())/float64(n), what+"-server-µs/waiter")
		from, busy = now, cpu
	}
	for i := range n {
		waiters.Go(func() {
			l, err := clients[i%len(clients)].Lock(b.Context(), "k", coord.Fair())
			if err != nil {
				failed.Add(1)
				return
			}
			served.Add(1)
			_ = l.Unlock(b.Context())
		})
	}
	until(b, 2*time.Minute, "all are in the queue", func() bool {
		in := int(failed.Load())
		for _, s := range stores {
			in += waitingOf(s)
		}
		return in >= n
	})
	lap("come")
	if err := holder.Unlock(b.Context(), "k", r.ID); err != nil {
		b.Error(err)
	}
	waiters.Wait()
	lap("serve")
	b.ReportMetric(float64(failed.Load()), "failed")
}

// waitingOf is how many of a client's are in the queue, and have found whom they wait for.
func waitingOf(store *backend) (n int) {
	store.mu.Lock()
	defer store.mu.Unlock()
	for _, e := range store.entries {
		if e.state == waiting {
			n++
		}
	}
	return n
}

// cpuOf is the processor time of a process.
func cpuOf(b *testing.B, pid int) time.Duration {
	stat := must[[]byte](b)(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
