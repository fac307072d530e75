package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
)

// column is a column of a table on a terminal.
type column struct {
	title  string
	spare  bool // left out first where the terminal is narrow
	shrink bool // cut next
}

var (
	lockColumns = []column{
		{title: "LOCK", shrink: true},
		{title: "STATE"},
		{title: "HOLDER", shrink: true},
		{title: "LEASE"},
		{title: "WAITING"},
		{title: "TOKEN", spare: true},
	}
	limitColumns = []column{{title: "LIMIT", shrink: true}, {title: "LEFT"}, {title: "OF", shrink: true}, {title: "NEXT"}}
)

const (
	// columnGap is between two columns.
	columnGap = 2
	// leastShrunk is the width below which a column is not cut.
	leastShrunk = 8
)

// tables are the lines of a table of locks and one of limits, as far as there are any. No line is wider than columns.
func tables(sights []sight, columns int, colour bool) []string {
	var locks, limits []sight
	for _, s := range sights {
		if s.kind == "limit" {
			limits = append(limits, s)
		} else {
			locks = append(locks, s)
		}
	}
	lines := table(lockColumns, locks, columns, colour)
	if len(locks) > 0 && len(limits) > 0 {
		lines = append(lines, "")
	}
	return append(lines, table(limitColumns, limits, columns, colour)...)
}

// table is titles and a line for each sight; nothing without sights.
func table(cols []column, sights []sight, columns int, colour bool) []string {
	if len(sights) == 0 {
		return nil
	}
	titles := make([]string, len(cols))
	width := make([]int, len(cols))
	for i, c := range cols {
		titles[i], width[i] = c.title, len(c.title)
	}
	for _, s := range sights {
		if s.failed != nil { // an error takes the rest of the line
			width[0] = max(width[0], runewidth.StringWidth(printable(s.failed.name)))
			continue
		}
		for i, cell := range s.row() {
			width[i] = max(width[i], runewidth.StringWidth(cell))
		}
	}
	fit(cols, width, columns)
	lines := []string{paint(bold, tableLine(titles, width, columns, ""), colour)}
	for _, s := range sights {
		if s.failed != nil {
			lines = append(lines, failedLine(s.failed, width[0], columns, colour))
			continue
		}
		sgr := ""
		if colour {
			sgr = s.colour()
		}
		lines = append(lines, tableLine(s.row(), width, columns, sgr))
	}
	return lines
}

// fit makes width narrow enough: it leaves spare columns out, whose width is then 0, and cuts the widest of those that
// may be cut.
func fit(cols []column, width []int, columns int) {
	excess := -columnGap - columns
	for _, w := range width {
		excess += w + columnGap
	}
	for i, c := range cols {
		if excess > 0 && c.spare {
			excess -= width[i] + columnGap
			width[i] = 0
		}
	}
	for ; excess > 0; excess-- {
		widest := -1
		for i, c := range cols {
			if c.shrink && width[i] > leastShrunk && (widest < 0 || width[i] > width[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return // the lines are cut
		}
		width[widest]--
	}
}

// tableLine is one line. sgr colours its second cell.
func tableLine(cells []string, width []int, columns int, sgr string) string {
	var b strings.Builder
	left := columns
	for i, cell := range cells {
		if width[i] == 0 {
			continue
		}
		cell = runewidth.FillRight(runewidth.Truncate(cell, width[i], "…"), width[i]+columnGap)
		cell = runewidth.Truncate(cell, left, "")
		left -= runewidth.StringWidth(cell)
		b.WriteString(paint(sgr, cell, i == 1))
	}
	return strings.TrimRight(b.String(), " ")
}

func failedLine(f *failedSight, width, columns int, colour bool) string {
	name := runewidth.FillRight(runewidth.Truncate(printable(f.name), width, "…"), width+columnGap)
	text := runewidth.Truncate(name+"unknown: "+f.text, columns, "…")
	return paint(red, text, colour)
}

// The colours of ECMA-48.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// paint colours a text, but not the blanks after it.
func paint(sgr, text string, wanted bool) string {
	word := strings.TrimRight(text, " ")
	if !wanted || sgr == "" || word == "" {
		return text
	}
	return sgr + word + plain + text[len(word):]
}

// colour is that of the state.
func (s sight) colour() string {
	switch {
	case s.limitStatus != nil && s.Remaining == 0:
		return red
	case s.limitStatus != nil || s.State == stateFree:
		return green
	}
	return yellow
}

// row is the cells of a sight that has not failed, by the columns of its table.
func (s sight) row() []string {
	if l := s.limitStatus; l != nil {
		next := ""
		if l.RetryAfterMS > 0 {
			next = round(time.Duration(l.RetryAfterMS) * time.Millisecond).String()
		}
		return []string{printable(l.Name), strconv.Itoa(l.Remaining), l.Limit, next}
	}
	l := s.lockStatus
	row := []string{printable(l.Name), l.State, "", "", "", ""}
	switch l.State {
	case stateFree:
		return row
	case stateShared:
		row[2] = l.sharedBy()
		return row
	}
	row[2], row[3] = who(l.holder), round(l.holder.TTL).String()
	if l.Waiters != nil {
		row[4] = strconv.Itoa(*l.Waiters)
	}
	row[5] = strconv.FormatInt(int64(l.holder.Token), 10)
	return row
}
