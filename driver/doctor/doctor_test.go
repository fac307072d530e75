package doctor

import (
	"slices"
	"testing"

	"github.com/coordgo/coord/driver"
)

func TestReport(t *testing.T) {
	t.Parallel()
	var r Report
	for _, server := range []struct {
		name   string
		broken bool
		told   bool
	}{{"a", false, true}, {"b", true, true}, {"c", true, false}, {"d", false, true}} {
		r.Server = server.name
		r.Check("disk",
			Skip(!server.told, "it does not tell"),
			Fail(server.broken, "it is\nfull", "add space"),
			Warn(server.broken, "not reached", "none"),
			OK(true, "it has space"))
		r.Check("settings", Skip(!server.told, "it does not tell"))
		r.Check("nothing", OK(false, "not said"))
	}
	want := []driver.Finding{
		{Level: driver.LevelFail, Name: "disk", Text: "b: it is; full", Remedy: "add space"},
		{Level: driver.LevelSkip, Name: "settings", Text: "c: not checked: it does not tell"},
	}
	if !slices.Equal(r.Findings, want) {
		t.Errorf("%+v, want %+v", r.Findings, want)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	s := Parse("# Memory\r\nused_memory:12\r\npolicy:a:b\r\n\r\n", ":")
	if len(s) != 2 || s.Number("used_memory") != 12 || s["policy"] != "a:b" || s.Number("policy") != 0 || s.Number("absent") != 0 {
		t.Errorf("%v", s)
	}
}
