package server

import (
	"net/http"
	"testing"
)

// Whatever a body says, it is done or refused, and the answer is as openapi.json says.
func FuzzBody(f *testing.F) {
	all := operations()
	for i := range all {
		for _, body := range []string{
			`{"key":"k"}`, `{"keys":["a","b"],"mode":"read"}`, `{"key":"k","mode":"permits","permits":3,"weight":9}`, `{"id":"x"}`, `{"prefix":"k"}`,
			`{"key":"k","limit":"l","n":2}`, `{"all":[{"key":"k","limit":"l"}]}`, `{"rule":"r","subject":["a"]}`, `{"key":"k","limit":"l","estimated":2,"used":9}`,
			`{"key":"k","limit":"l","n":9223372036854775807}`, `{"key":"\u0000"}`, `[]`, ``, "\xff",
		} {
			f.Add(uint8(i), body)
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, body string) {
		k := start(t, "limits: {l: 3/1s}\nrules: [{name: r, subject: user, limits: [2/1s, 3/1h]}]\nserve: {max_wait: 1ms}")
		path := all[int(i)%len(all)].path
		a := k.postUnchecked(t.Context(), path, body)
		if a.status == http.StatusInternalServerError {
			t.Errorf("%s: %v", body, a.body)
		}
		k.checkAnswer(path, a)
	})
}
