package report

import (
	"testing"
	"time"
)

func TestPlot(t *testing.T) {
	all := []map[string]Spread{
		{"t": {N: 9, Min: 20 * time.Microsecond, P50: 100 * time.Microsecond, P99: time.Millisecond, Max: 3 * time.Millisecond}},
		{},
		{"t": {N: 1, Min: -time.Second, P50: -time.Second, P99: -time.Second, Max: -time.Second}},
	}
	p := draw("t", []string{"a", "b", "c"}, all)
	if len(p.Bars) != 2 || len(p.Ticks) != 5 || p.Ticks[0].Label != "1µs" || p.Ticks[4].Label != "10ms" {
		t.Fatalf("%+v, want two bars from 1µs to 10ms", p)
	}
	a, c := p.Bars[0], p.Bars[1]
	if !(plotLeft < a.Left && a.Left < a.Median && a.Median < a.P99 && a.P99 < a.Right && a.Right < plotLeft+plotWidth) {
		t.Errorf("the bar %+v is not in order", a)
	}
	if c.Left != plotLeft || c.Width < 1 {
		t.Errorf("the bar %+v of a time below zero is not at the left end", c)
	}
}
