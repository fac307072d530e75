package bench

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine is where something was measured.
type Machine struct {
	CPU    string  `json:"cpu,omitempty"` // on Linux
	Cores  int     `json:"cores"`
	Memory string  `json:"memory,omitempty"` // on Linux
	OS     string  `json:"os"`
	Arch   string  `json:"arch"`
	Kernel string  `json:"kernel,omitempty"` // on Linux
	Go     string  `json:"go"`
	Load   float64 `json:"load_average"` // of the minute before, on Linux
}

// ThisMachine describes the one we are on.
func ThisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version()}
	m.CPU = field("/proc/cpuinfo", "model name")
	if kb, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		m.Memory = strconv.Itoa((kb+1<<19)>>20) + " GB"
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	m.Load = LoadAverage()
	return m
}

// LoadAverage is how many processes wanted to run in the last minute, 0 where the system
// does not tell.
func LoadAverage() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), " ")
	load, _ := strconv.ParseFloat(first, 64) // 0 where it is not told
	return load
}

// field is the first value of this name in a file of lines "name : value".
func field(path, name string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
