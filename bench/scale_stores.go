package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// errUntold is a figure that this store, or this system, does not tell.
var errUntold = errors.New("not told here")

// memory is how many bytes the store uses for its data.
func (s *store) memory(ctx context.Context) (float64, error) {
	switch s.name {
	case "redis":
		reply, err := ask(s.addr, "INFO memory\r\n", "used_memory_human:")
		return after(reply, "used_memory:"), err
	case "memcached":
		reply, err := ask(s.addr, "stats\r\n", "END")
		return after(reply, "STAT bytes "), err
	case "etcd":
		return s.etcdMemory(ctx)
	case "zookeeper":
		return javaHeap(ctx, s.pid)
	case "file":
		return diskUse(s.addr)
	}
	return 0, errUntold
}

// after is the number behind the first line that begins with prefix.
func after(reply, prefix string) float64 {
	for line := range strings.Lines(reply) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return number(strings.TrimSpace(rest))
		}
	}
	return 0
}

// etcdMemory is the size of the data file, of what is in use: with its history, as nothing is compacted here.
func (s *store) etcdMemory(ctx context.Context) (size float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "etcd_mvcc_db_total_size_in_use_in_bytes "); ok {
			size = number(rest)
		}
	}
	return size, lines.Err()
}

var heapUsed = regexp.MustCompile(`used (\d+)K`)

// javaHeap is the heap of a Java process after a collection: of all its generations.
func javaHeap(ctx context.Context, pid int) (float64, error) {
	if pid == 0 {
		return 0, errUntold
	}
	id := strconv.Itoa(pid)
	if err := exec.CommandContext(ctx, "jcmd", id, "GC.run").Run(); err != nil {
		return 0, fmt.Errorf("%w: jcmd: %w", errUntold, err)
	}
	out, err := exec.CommandContext(ctx, "jcmd", id, "GC.heap_info").Output()
	if err != nil {
		return 0, fmt.Errorf("%w: jcmd: %w", errUntold, err)
	}
	var sum float64
	for line := range strings.Lines(string(out)) {
		if m := heapUsed.FindStringSubmatch(line); m != nil && strings.Contains(line, "generation") {
			sum += 1024 * number(m[1])
		}
	}
	return sum, nil
}

// diskUse is the size of the files below dir.
func diskUse(dir string) (sum float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += float64(info.Size())
		}
		return err
	})
	return sum, err
}

// connections are those of clients to the store, 0 where the system does not tell.
func (s *store) connections() int {
	_, port, ok := strings.Cut(s.addr, ":")
	if !ok {
		return 0
	}
	want, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	n := 0
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			return n
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) > 3 && f[3] == "01" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", want)) {
				n++
			}
		}
	}
	return n
}

// cpuOf is how long a process has computed, 0 where the system does not tell.
func cpuOf(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if pid == 0 || err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), ") ") // its name may have spaces
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	return time.Duration(number(f[11])+number(f[12])) * cpuTick
}

// idleTime is how long the machine's cores had nothing to do, 0 where the system does not tell.
func idleTime() time.Duration {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(data), "\n")
	f := strings.Fields(first)
	if len(f) < 6 {
		return 0
	}
	return time.Duration(number(f[4])+number(f[5])) * cpuTick // waiting for a disk is idle too
}

// cpuTick is what Linux counts processor time in.
const cpuTick = 10 * time.Millisecond

// heap is what the program has allocated and not given back, and its goroutines.
func heap() (bytes float64, goroutines int) {
	runtime.GC()
	runtime.GC() // what the first one has finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
}
