package bench

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
)

// Chart is a chart of horizontal bars, in groups. SVG draws it legible on
// light and on dark, without a script and without fonts of its own.
type Chart struct {
	Title  string
	Unit   string // of the axis, such as "ms"
	Groups []Group
}

// Group is a number of bars that are compared with each other.
type Group struct {
	Name string
	Bars []Bar
}

// Bar is one value, with the least and the greatest that were seen.
type Bar struct {
	Label          string
	Kind           BarKind
	Value, Low, Up float64
	// Failed says, in a few words, why there is no value.
	Failed string
}

// BarKind is the part that a bar plays.
type BarKind string

// The kinds of bars. They differ in colour.
const (
	Ours  BarKind = "ours"  // what the page is about
	Peer  BarKind = "peer"  // another that does the same
	Floor BarKind = "floor" // what both are made of
)

const (
	chartWidth = 780
	chartLeft  = 230 // of the axis, after the labels
	chartRight = 90  // for the figures beside the bars
	chartTop   = 60
	chartRow   = 20
	chartGap   = 26 // before a group, with its name
)

const chartStyle = `
	.page { fill: #ffffff } .text { fill: #1f2328 } .faint { fill: #59636e } .grid { stroke: #d1d9e0 } .whisker { stroke: #1f2328 }
	.ours { fill: #0969da } .peer { fill: #afb8c1 } .floor { fill: #d4a72c } .failed { fill: #cf222e }
	@media (prefers-color-scheme: dark) {
		.page { fill: #0d1117 } .text { fill: #f0f6fc } .faint { fill: #9198a1 } .grid { stroke: #3d444d } .whisker { stroke: #f0f6fc }
		.ours { fill: #4493f8 } .peer { fill: #656c76 } .floor { fill: #bb8009 } .failed { fill: #f85149 }
	}
	text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif }
	.title { font-size: 15px; font-weight: 600 } .name { font-weight: 600 }
`

// axis maps values to pixels: from zero, or by logarithm where the values differ too much for that.
type axis struct {
	log       bool
	low, high float64 // on a logarithmic axis exponents of ten
}

// logAbove is by how much the values of a chart may differ on an axis from zero.
const logAbove = 25

func newAxis(groups []Group) axis {
	least, most := math.Inf(1), 0.0
	for _, g := range groups {
		for _, b := range g.Bars {
			if b.Failed == "" && b.Value > 0 {
				least, most = min(least, b.Value, positive(b.Low, b.Value)), max(most, b.Value, b.Up)
			}
		}
	}
	if most == 0 {
		return axis{high: 1}
	}
	if most/least <= logAbove {
		return axis{high: most}
	}
	low := math.Floor(math.Log10(least))
	return axis{log: true, low: low, high: max(math.Ceil(math.Log10(most)), low+1)}
}

func positive(v, otherwise float64) float64 {
	if v > 0 {
		return v
	}
	return otherwise
}

// x is where v lies, in pixels.
func (a axis) x(v float64) float64 {
	if a.log {
		v = (math.Log10(math.Max(v, math.Pow(10, a.low))) - a.low) / (a.high - a.low)
	} else {
		v /= a.high
	}
	return math.Round(10*(chartLeft+v*(chartWidth-chartLeft-chartRight))) / 10
}

// ticks are the values at the grid's lines.
func (a axis) ticks() (list []float64) {
	if a.log {
		for e := a.low; e <= a.high; e++ {
			list = append(list, math.Pow(10, e))
		}
		return list
	}
	step := math.Pow(10, math.Floor(math.Log10(a.high)))
	for a.high/step < 3 {
		step /= 2
	}
	for a.high/step > 6 {
		step *= 2
	}
	for v := 0.0; v <= a.high*1.0001; v += step {
		list = append(list, v)
	}
	return list
}

// SVG draws charts, one below the other.
func SVG(charts ...*Chart) []byte {
	height, title := 0, ""
	for i, c := range charts {
		height += c.height()
		if i > 0 {
			title += "; "
		}
		title += c.Title
	}
	d := new(drawing)
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		chartWidth, height, chartWidth, height, escape(title))
	d.printf("<style>%s</style>\n", chartStyle)
	d.printf(`<rect class="page" width="%d" height="%d" rx="6"/>`+"\n", chartWidth, height)
	y := 0
	for _, c := range charts {
		d.printf(`<g transform="translate(0 %d)">`+"\n", y)
		d.chart(c)
		d.printf("</g>\n")
		y += c.height()
	}
	d.printf("</svg>\n")
	return d.out.Bytes()
}

// SVG draws the chart alone.
func (c *Chart) SVG() []byte { return SVG(c) }

func (c *Chart) height() int {
	height := chartTop + 44
	for _, g := range c.Groups {
		height += chartGap + chartRow*len(g.Bars)
	}
	return height
}

func (d *drawing) chart(c *Chart) {
	d.axis = newAxis(c.Groups)
	height := c.height()
	d.text(16, 26, "text title", "", c.Title)
	d.legend(c)
	d.grid(height - 40)
	unit := c.Unit
	if d.axis.log {
		unit += " (logarithmic scale)"
	}
	d.text((chartLeft+chartWidth-chartRight)/2, float64(height-8), "faint", "middle", unit)
	y := chartTop - 10
	for _, g := range c.Groups {
		y += chartGap
		d.text(16, float64(y-6), "text name", "", g.Name)
		for _, b := range g.Bars {
			d.bar(y, b)
			y += chartRow
		}
	}
}

// drawing is an SVG that is being written.
type drawing struct {
	out  bytes.Buffer
	axis axis
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.out, format, args...) }

func (d *drawing) text(x, y float64, class, anchor, text string) {
	if anchor != "" {
		anchor = ` text-anchor="` + anchor + `"`
	}
	d.printf(`<text x="%g" y="%g" class="%s"%s>%s</text>`+"\n", x, y, class, anchor, escape(text))
}

// grid draws the lines down to bottom, and the values that they stand for.
func (d *drawing) grid(bottom int) {
	for _, v := range d.axis.ticks() {
		x := d.axis.x(v)
		d.printf(`<line class="grid" x1="%g" x2="%g" y1="%d" y2="%d"/>`+"\n", x, x, chartTop-8, bottom)
		d.text(x, float64(bottom+15), "faint", "middle", Figure(v))
	}
}

// kindNames are what the legend says of the kinds.
var kindNames = []struct {
	kind BarKind
	name string
}{{Floor, "bare commands"}, {Peer, "another library"}, {Ours, "coord"}}

// legend names the colours, if there are several, from the right to the left.
func (d *drawing) legend(c *Chart) {
	seen := map[BarKind]bool{}
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			seen[b.Kind] = true
		}
	}
	if len(seen) < 2 {
		return
	}
	x := chartWidth - 8
	for _, k := range kindNames {
		if !seen[k.kind] {
			continue
		}
		x -= 7*len(k.name) + 22
		d.printf(`<rect class="%s" x="%d" y="%d" width="10" height="10"/>`+"\n", k.kind, x, chartTop-21)
		d.text(float64(x+14), chartTop-12, "faint", "", k.name)
	}
}

func (d *drawing) bar(y int, b Bar) {
	d.text(chartLeft-8, float64(y+13), "text", "end", b.Label)
	if b.Failed != "" {
		d.text(chartLeft+4, float64(y+13), "failed", "", b.Failed)
		return
	}
	x := d.axis.x(b.Value)
	d.printf(`<rect class="%s" x="%d" y="%d" width="%g" height="%d"/>`+"\n", b.Kind, chartLeft, y+3, math.Round(10*math.Max(x-chartLeft, 1))/10, chartRow-6)
	end := x
	if b.Up > b.Low {
		low, up := d.axis.x(b.Low), d.axis.x(b.Up)
		d.printf(`<line class="whisker" x1="%g" x2="%g" y1="%d" y2="%d"/>`+"\n", low, up, y+chartRow/2, y+chartRow/2)
		end = max(end, up)
	}
	d.text(end+5, float64(y+14), "text", "", Figure(b.Value))
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}

// Figure writes v with three significant digits, and thousands apart.
func Figure(v float64) string {
	if v < 0 {
		return "-" + Figure(-v)
	}
	if v < 1000 {
		digits := 0
		for limit := 100.0; v < limit && v > 0 && digits < 4; limit /= 10 {
			digits++
		}
		text := strconv.FormatFloat(v, 'f', digits, 64)
		if digits > 0 {
			text = trimZeros(text)
		}
		if text != "1000" {
			return text
		}
	}
	scale := math.Pow(10, math.Floor(math.Log10(v))-2)
	if v < 100_000 {
		scale = min(scale, 10)
	}
	digits := strconv.FormatFloat(math.Round(v/scale)*scale, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func trimZeros(s string) string {
	for s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	if s[len(s)-1] == '.' {
		s = s[:len(s)-1]
	}
	return s
}
