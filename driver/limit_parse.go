package driver

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseLimit reads "RATE/PERIOD [burst=N] [ALGORITHM]". The period is a Go duration, such as 1m or 1h30m, or a unit
// with or without a number: 2000/min, 10/5 minutes, 100/day. " per " may stand for the slash: 10 per second.
// The result has been checked by Normal, and keeps its zero values. A bad string is ErrInvalid, and the message shows
// the nearest right form.
func ParseLimit(s string) (Limit, error) {
	l, err := parseLimit(s)
	if err != nil {
		return Limit{}, fmt.Errorf("%w: limit %q: %w", ErrInvalid, s, err)
	}
	if _, err := l.Normal(); err != nil {
		return Limit{}, fmt.Errorf("limit %q: %w", s, err)
	}
	return l, nil
}

// limitForms are shown where no form is nearest.
const limitForms = `want a form like "2000/1m", "2000/1m burst=200" or "2000/1m fixed-window"`

func parseLimit(s string) (l Limit, err error) {
	bad := func(format string, args ...any) (Limit, error) { return Limit{}, fmt.Errorf(format, args...) }
	if strings.TrimSpace(s) == "" {
		return bad("empty: " + limitForms)
	}
	rate, rest, ok := cutRate(s)
	if !ok {
		return bad("no period: want one, such as %q", strings.Fields(rate)[0]+"/1m")
	}
	per, more := cutPeriod(rest)
	if l.Rate, err = strconv.Atoi(rate); err != nil {
		return bad("rate %q is not a whole number: %s", rate, nearestRate(rate, per))
	}
	if l.Per, err = parsePeriod(per); err != nil {
		return bad("period %q %w", per, err)
	}
	for _, word := range more {
		if n, ok := strings.CutPrefix(word, "burst="); ok && l.Burst == 0 {
			if l.Burst, err = strconv.Atoi(n); err != nil || l.Burst < 1 {
				return bad("burst %q is not a positive whole number: %s", n, limitForms)
			}
			continue
		}
		if a, err := ParseAlgorithm(word); err == nil && l.Algorithm == 0 {
			l.Algorithm = a
			continue
		}
		return bad("%q is unknown or repeated: %s", word, nearestWord(word))
	}
	return l, nil
}

// cutRate splits s behind the rate.
func cutRate(s string) (rate, rest string, ok bool) {
	s = strings.Join(strings.Fields(s), " ")
	if rate, rest, ok = strings.Cut(s, "/"); !ok {
		rate, rest, ok = strings.Cut(s, " per ")
	}
	return strings.TrimSpace(rate), strings.TrimSpace(rest), ok
}

// cutPeriod gives the period, whose number and unit may be two words, and the words behind it.
func cutPeriod(rest string) (per string, more []string) {
	words := strings.Fields(rest)
	switch {
	case len(words) == 0:
		return "", nil
	case len(words) > 1 && digits(words[0]) == len(words[0]) && units[strings.ToLower(words[1])] > 0:
		return words[0] + words[1], words[2:]
	}
	return words[0], words[1:]
}

// digits is how many s begins with.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

// units are those that people write; time.ParseDuration knows the others.
var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
}

// parsePeriod reads a period; its error goes on after the period.
func parsePeriod(s string) (time.Duration, error) {
	number, unit := s[:digits(s)], s[digits(s):]
	if number != "" && unit == "" {
		return 0, fmt.Errorf("has no unit: want one, such as %q", s+"s")
	}
	one, known := units[strings.ToLower(unit)]
	if known && number == "" {
		return one, nil
	}
	if known {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > int64(math.MaxInt64/one) {
			return 0, fmt.Errorf("is too long: want at most %v", MaxPer)
		}
		return time.Duration(n) * one, nil
	}
	if number == "" && unit != "" && unit[0] != '-' && unit[0] != '+' && unit[0] != '.' {
		s = "1" + s // ms, us
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("is not a duration: want one, such as 1s, 5m, 1h or 1d")
	}
	return d, nil
}

// nearestRate is what may have been meant by a rate that is not a whole number.
func nearestRate(rate, per string) string {
	plain := strings.NewReplacer(",", "", "_", "", "'", "", " ", "").Replace(rate)
	if thousands, ok := strings.CutSuffix(strings.ToLower(plain), "k"); ok {
		plain = thousands + "000"
	}
	if _, err := strconv.Atoi(plain); err == nil && per != "" {
		return fmt.Sprintf("want %q", plain+"/"+per)
	}
	if _, err := strconv.Atoi(per); err == nil && digits(rate) < len(rate) {
		if d, err := parsePeriod(rate); err == nil {
			return fmt.Sprintf("want the rate first, as in %q", per+"/"+shortDuration(d))
		}
	}
	return limitForms
}

// nearestWord is what may have been meant by a word behind the period.
func nearestWord(word string) string {
	lower := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(word))
	for a, name := range algorithmNames {
		begin, _, _ := strings.Cut(name, "-")
		if begin != "" && strings.HasPrefix(lower, begin) {
			return fmt.Sprintf("want %s", Algorithm(a))
		}
	}
	if strings.HasPrefix(lower, "burst") {
		return "want a burst such as burst=200, once"
	}
	return limitForms
}
