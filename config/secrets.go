package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// A reference stands in a URL for a secret that is elsewhere: ${NAME} for a variable of the
// environment, ${file:PATH} for the content of a file.
var reference = regexp.MustCompile(`\$\{([^{}]*)\}`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

const filePrefix = "file:"

// maxSecret bounds a file with a secret, in bytes.
const maxSecret = 64 << 10

// masked is a URL in which a word stands for each reference, so that it can be parsed.
type masked struct {
	text        string
	words, refs []string
}

// mask puts the words in. It refuses what looks like a reference and is none, without
// showing it.
func mask(text string) (masked, error) {
	stem := "reference"
	for strings.Contains(text, stem) {
		stem += "x"
	}
	var m masked
	m.text = reference.ReplaceAllStringFunc(text, func(ref string) string {
		word := stem + strconv.Itoa(len(m.refs)) + "z"
		m.words, m.refs = append(m.words, word), append(m.refs, ref)
		return word
	})
	if strings.Contains(m.text, "${") {
		return m, errors.New("a ${ that does not end: want ${NAME} or ${file:/path}")
	}
	for _, ref := range m.refs {
		if name := ref[2 : len(ref)-1]; !variableName.MatchString(name) && (!strings.HasPrefix(name, filePrefix) || name == filePrefix) {
			return m, errors.New("a malformed ${…}: want ${NAME}, of the environment, or ${file:/path}")
		}
	}
	return m, nil
}

// replace puts a text in the place of each word.
func (m masked) replace(text string, by []string) string {
	pairs := make([]string, 0, 2*len(by))
	for i, word := range m.words {
		pairs = append(pairs, word, by[i])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// count is how many references text has, and rest is what else it has.
func (m masked) count(text string) (n int, rest string) {
	for _, word := range m.words {
		n += strings.Count(text, word)
	}
	return n, m.replace(text, make([]string, len(m.words)))
}

// misplaced reports whether a reference stands where a secret would be shown: anywhere
// but in a password.
func (m masked) misplaced(parsed *url.URL) bool {
	var allowed int
	if password, ok := parsed.User.Password(); ok {
		allowed, _ = m.count(password)
	}
	for name, values := range parsed.Query() {
		if !secret(name) {
			continue
		}
		for _, v := range values {
			n, _ := m.count(v)
			allowed += n
		}
	}
	return allowed != len(m.refs)
}

// resolve gives the URL with the secrets in it. Errors name the references and show no
// secret.
func (u URL) resolve(ctx context.Context, lookup func(string) (string, bool)) (string, error) {
	m, err := mask(string(u))
	if err != nil {
		return "", err
	}
	values := make([]string, len(m.refs))
	for i, ref := range m.refs {
		value, err := look(ctx, ref[2:len(ref)-1], lookup)
		if err != nil {
			return "", fmt.Errorf("%s: %w", ref, err)
		}
		values[i] = escape(value)
	}
	return m.replace(m.text, values), nil
}

// look finds the secret of that name.
func look(ctx context.Context, name string, lookup func(string) (string, bool)) (string, error) {
	path, ok := strings.CutPrefix(name, filePrefix)
	if !ok {
		if lookup == nil {
			lookup = os.LookupEnv
		}
		if value, _ := lookup(name); value != "" {
			return value, nil
		}
		return "", errors.New("not set in the environment")
	}
	text, err := readWithin(ctx, path, maxSecret)
	if err != nil {
		return "", err
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	if len(text) == 0 {
		return "", errors.New("the file is empty")
	}
	return string(text), nil
}

// escape writes a secret so that it means itself in a password and in a query.
func escape(value string) string {
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}
