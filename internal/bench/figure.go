package bench

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Figure is v to three digits or so, with thousands parted.
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
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
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

// Micros is a time in µs.
func Micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// Median is that of values in any order; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return (values[len(values)/2] + values[(len(values)-1)/2]) / 2
}
