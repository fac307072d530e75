package bench

import "slices"

// Spread says how the values of several rounds lie.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

// SpreadOf the values, of which there may be none.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(values))
	median := s[len(s)/2]
	if len(s)%2 == 0 {
		median = (median + s[len(s)/2-1]) / 2
	}
	return Spread{Median: median, Min: s[0], Max: s[len(s)-1], N: len(s)}
}

// Jain is Jain's index of fairness of what each of several got: 1 if all got the same, 1/n
// if one of n got everything. Where nobody got anything nobody was preferred: 1.
func Jain(got []int) float64 {
	var sum, squares float64
	for _, g := range got {
		sum += float64(g)
		squares += float64(g) * float64(g)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(got)) * squares)
}
