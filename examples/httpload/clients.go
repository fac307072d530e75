package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answers are what a client saw.
type answers struct {
	status map[int]int // how many of each
	took   []float64   // seconds, in order of size
}

// hey sends n requests on c connections.
func hey(ctx context.Context, url string, n, c int) (answers, error) {
	n -= n % c // each connection sends as many as the others
	out, err := tool(ctx, "hey", "-n", strconv.Itoa(n), "-c", strconv.Itoa(c), "-o", "csv", url)
	if err != nil {
		return answers{}, err
	}
	rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
	if err != nil || len(rows) != n+1 {
		return answers{}, fmt.Errorf("hey: %d answers to %d requests: %v", max(0, len(rows)-1), n, err)
	}
	took, code := slices.Index(rows[0], "response-time"), slices.Index(rows[0], "status-code")
	if took < 0 || code < 0 {
		return answers{}, fmt.Errorf("hey: columns %v", rows[0])
	}
	a := answers{status: make(map[int]int)}
	for _, row := range rows[1:] {
		status, notStatus := strconv.Atoi(row[code])
		seconds, notSeconds := strconv.ParseFloat(row[took], 64)
		if err := errors.Join(notStatus, notSeconds); err != nil {
			return answers{}, fmt.Errorf("hey: %w", err)
		}
		a.status[status]++
		a.took = append(a.took, seconds)
	}
	slices.Sort(a.took)
	return a, nil
}

// mean and p99 of the times, in µs.
func (a *answers) mean() float64 {
	sum := 0.0
	for _, s := range a.took {
		sum += s
	}
	return 1e6 * sum / float64(len(a.took))
}

func (a *answers) p99() float64 {
	return 1e6 * a.took[int(math.Ceil(0.99*float64(len(a.took))))-1]
}

var (
	wrkAll   = regexp.MustCompile(`(?m)^\s*(\d+) requests in `)
	wrkOther = regexp.MustCompile(`(?m)^\s*Non-2xx or 3xx responses: (\d+)`)
	wrkBroke = regexp.MustCompile(`(?m)^\s*Socket errors: .*$`)
)

// wrk sends requests for a time, and gives how many were answered, and how many of these with 200.
func wrk(ctx context.Context, url string, c int, d time.Duration) (all, ok int, err error) {
	seconds := max(1, int(d/time.Second))
	out, err := tool(ctx, "wrk", "-t", "2", "-c", strconv.Itoa(max(c, 2)), "-d", strconv.Itoa(seconds)+"s", url)
	if err != nil {
		return 0, 0, err
	}
	m := wrkAll.FindSubmatch(out)
	if broke := wrkBroke.Find(out); m == nil || broke != nil {
		return 0, 0, fmt.Errorf("wrk: %s", strings.TrimSpace(string(out)))
	}
	all, err = strconv.Atoi(string(m[1]))
	others := 0
	if m := wrkOther.FindSubmatch(out); m != nil && err == nil {
		others, err = strconv.Atoi(string(m[1]))
	}
	return all, all - others, err
}

func tool(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%w: scripts/stores %s installs it", err, name)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", name, err, complaints.String())
	}
	return out, nil
}
