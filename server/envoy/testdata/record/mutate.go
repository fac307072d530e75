package main

import (
	"strings"
)

// mutate makes one change that may make the text wrong.
func mutate(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	i := r.Intn(len(lines))
	line := lines[i]
	trimmed := strings.TrimLeft(line, " -")
	in := line[:len(line)-len(trimmed)]
	plain := strings.Repeat(" ", len(in))
	name, _, _ := strings.Cut(trimmed, ":")
	insert := func(s string) { lines = append(lines[:i+1:i+1], append([]string{s}, lines[i+1:]...)...) }
	kinds := 13
	if january {
		kinds-- // the last makes metadata
	}
	switch r.Intn(kinds) {
	case 0:
		lines = append(lines[:i:i], lines[i+1:]...)
	case 1:
		lines[i] = in + name + "s: 1"
	case 2:
		insert(plain + pick("unknown", "Key", "requests", "unit ") + ": x")
	case 3:
		insert(plain + pick(known("unit: minute", "shadow_mode: true", "unlimited: true", "domain: x", "name: n", "value_to_metric: true",
			"share_threshold: true", "replaces: []", "metadata: {a: 1}", "descriptors: []", "quota_mode: no")...))
	case 4:
		values := []string{
			"1.5", "[]", "{}", "~", `""`, `"7"`, "true", "yes", "-1", "4294967296", "99999999999999999999", "[a]", "{key: a}", "2020-01-01",
			"second", "1e3", "0b11", "010", "!!str 5", "text",
		}
		if name != "key" || !january { // a value comes after the key, and so after its *
			values = append(values, `"*"`)
		}
		lines[i] = in + name + ": " + pick(values...)
	case 5:
		insert(plain + "5: x")
	case 6:
		lines[i] = line + " # said"
	case 7:
		lines[i] = in + "\"" + name + "\":" + strings.TrimPrefix(trimmed, name+":")
	case 8:
		lines[i] = strings.Replace(line, ": ", ":  ", 1)
	case 9:
		lines[i] = "\t" + line
	case 10:
		lines = append(lines, "---", "domain: second")
	case 11:
		lines[i] = in + name + ": &x " + strings.TrimPrefix(strings.TrimPrefix(trimmed, name+":"), " ")
		lines = append(lines, pick("", "name: *x"))
	case 12:
		insert(plain + "metadata: " + pick("5", "{a: {1: b}}", "{a: [1, {b: c}]}", "{}", "[]", "text", "~", "{1: 2}"))
	}
	return strings.Join(lines, "\n") + "\n"
}
