package config_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordgo/coord/config"
)

func TestSecretsMissing(t *testing.T) {
	dir := t.TempDir()
	empty, large := filepath.Join(dir, "empty"), filepath.Join(dir, "large")
	write(t, empty, "\r\n")
	write(t, large, strings.Repeat("s3cret", 20000))
	for reference, want := range map[string]string{
		"${NOSUCH}":               "${NOSUCH}: not set in the environment",
		"${EMPTY}":                "${EMPTY}: not set in the environment",
		"${file:" + dir + "/no}":  "${file:" + dir + "/no}: open " + dir + "/no: no such file or directory",
		"${file:" + empty + "}":   "${file:" + empty + "}: the file is empty",
		"${file:" + large + "}":   "${file:" + large + "}: read " + large + ": more than 65536 bytes",
		"s3cret${PART}${NOSUCH}x": "${NOSUCH}: not set in the environment",
	} {
		env := environ{"EMPTY": "", "PART": "s3cret"}
		path := file(t, "prefix: a/\nurl: 'redis://u:"+reference+"@h'\n")
		c, err := config.LoadEnv(t.Context(), path, env.lookup)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Open(t.Context()); err == nil || err.Error() != path+":2: url: "+want {
			t.Errorf("%s\n got: %v\nwant: %s", reference, err, want)
		}
		env[config.EnvURL] = "redis://u:" + reference + "@h"
		if c, err = config.LoadEnv(t.Context(), path, env.lookup); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Open(t.Context()); err == nil || err.Error() != "COORD_URL: "+want {
			t.Errorf("%s\n got: %v\nwant: COORD_URL: %s", reference, err, want)
		}
	}
}

func TestURLHidesSecrets(t *testing.T) {
	for url, want := range map[config.URL]string{
		"":                                       "",
		"memory://":                              "memory://",
		"redis://u:s3cret@h:1/0":                 "redis://xxxxx@h:1/0",
		"redis://h?db=1&apikey=s3cret":           "redis://h?xxxxx",
		"redis://u:s3cret@h:bad":                 "redis://xxxxx",
		"redis://u:${A}@[::1],h:7/?token=s3cret": "redis://xxxxx@[::1],h:7/?xxxxx",
		"u:s3cret@h":                             "xxxxx",
		"redis://u:${A}@h/1?client_name=ok":      "redis://xxxxx@h/1?client_name=ok",
		"redis://u:s3cret${A}@h":                 "redis://xxxxx@h",
		"redis://u:${s3cret@h":                   "redis://xxxxx",
		"redis://${A}?prefix=${B}":               "redis://${A}?prefix=${B}",
	} {
		text, err := url.MarshalText()
		if err != nil {
			t.Error(err)
		}
		for _, got := range []string{url.String(), string(text), fmt.Sprint(url), fmt.Sprintf("%+v", url)} {
			if got != want {
				t.Errorf("%q is printed as %q, want %q", string(url), got, want)
			}
		}
	}
}
