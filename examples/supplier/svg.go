package main

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
)

// The plot: two panels, one above the other.
const (
	width, height = 720, 420
	left, right   = 64, 28
	top           = 48
	panel         = 140 // height of each
	gap           = 48  // between them
)

// svg is the plot as a picture: above, calls per second; below, the most calls in any period, and the limit.
func (r *report) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12" fill="#222">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	callers := "processes"
	if r.InOne {
		callers = "clients in one process"
	}
	title := fmt.Sprintf("%d %s, %d calls in any %v, on %s", r.Processes, callers, r.Rate, r.Per, r.Store)
	if r.Alone {
		title = fmt.Sprintf("%d processes, each with a limit of its own of %d calls in any %v", r.Processes, r.Rate, r.Per)
	}
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="15" font-weight="600">%s</text>`+"\n", left, html.EscapeString(title))

	perSecond := make([]float64, len(r.Counts))
	for i, n := range r.Counts {
		perSecond[i] = float64(n) / r.Slice.Seconds()
	}
	r.bars(&b, top, perSecond)
	r.sums(&b, top+panel+gap)
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#666">%d calls, %d denied; in any %v at most %d</text>`+"\n", left, height-10, r.Calls, r.Denied, r.Per, r.Most)
	b.WriteString("</svg>\n")
	return b.String()
}

// bars draws calls per second.
func (r *report) bars(b *strings.Builder, y int, values []float64) {
	highest := max(1, slices.Max(values))
	r.axes(b, y, "calls per second", highest)
	step := float64(width-left-right) / float64(len(values))
	for i, v := range values {
		h := v / highest * panel
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#4c78a8"/>`+"\n", left+float64(i)*step, float64(y+panel)-h, step*0.85, h)
	}
}

// sums draws the most calls in a period that ended in each slice, and the limit.
func (r *report) sums(b *strings.Builder, y int) {
	highest := 1.1 * float64(max(r.Rate, slices.Max(r.Sums)))
	r.axes(b, y, fmt.Sprintf("most calls in any %v that ended then", r.Per), highest)
	at := func(v int) float64 { return float64(y+panel) - float64(v)/highest*panel }
	step := float64(width-left-right) / float64(len(r.Sums))
	points := []string{fmt.Sprintf("%d,%d", left, y+panel)}
	for i, v := range r.Sums {
		points = append(points, fmt.Sprintf("%.1f,%.1f", left+float64(i+1)*step, at(v)))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="#4c78a8" stroke-width="2"/>`+"\n", strings.Join(points, " "))
	fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#c33" stroke-dasharray="5 4"/>`+"\n", left, width-right, at(r.Rate), at(r.Rate))
	fmt.Fprintf(b, `<text x="%d" y="%.1f" fill="#c33" text-anchor="end">limit %d</text>`+"\n", width-right, at(r.Rate)-5, r.Rate)
}

// axes draws the frame of a panel.
func (r *report) axes(b *strings.Builder, y int, what string, highest float64) {
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", left, y-8, html.EscapeString(what))
	fmt.Fprintf(b, `<path d="M%d %dV%dH%d" fill="none" stroke="#999"/>`+"\n", left, y, y+panel, width-right)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%.0f</text>`+"\n", left-6, y+10, highest)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">0</text>`+"\n", left-6, y+panel)
	for i := range 7 {
		x := left + (width-left-right)*i/6
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="#666">%v</text>`+"\n", x, y+panel+16, (r.For * time.Duration(i) / 6).Round(10*time.Millisecond))
	}
}
