package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestID(t *testing.T) {
	since := time.UnixMilli(1_800_000_000_123)
	for _, name := range []string{"host", "a/b/c", strings.Repeat("n", MaxName)} {
		id := FormatID(name, 1<<31-1, since, [16]byte{0: 0xab, 15: 0x01})
		if len(id) > MaxID {
			t.Errorf("id of %d bytes", len(id))
		}
		gotName, pid, gotSince, err := ParseID(id)
		if gotName != name || pid != 1<<31-1 || !gotSince.Equal(since) || err != nil {
			t.Errorf("%s: %q %d %v %v", id, gotName, pid, gotSince, err)
		}
		h := NewHolder(id, 7, time.Second)
		if h.Name != name || h.PID != pid || h.Token != 7 || h.TTL != time.Second || h.Waiters != -1 {
			t.Errorf("holder %+v", h)
		}
		if l := NewHolder(id+LeaderMark, 7, time.Second); len(l.ID) > MaxID || !l.Leader || h.Leader || l.Name != name || l.PID != pid {
			t.Errorf("a leader's hold is %+v, another %+v", l, h)
		}
	}
	if h := NewHolder("somebody else's", 7, time.Second); h.Name != "" || h.ID != "somebody else's" {
		t.Errorf("holder %+v of a foreign id", h)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add(FormatID("host", 1, time.UnixMilli(1), [16]byte{}))
	f.Add("host/x/1/00000000000000000000000000000000")
	f.Add(FormatID("host/lead", 1, time.UnixMilli(1), [16]byte{}) + LeaderMark)
	f.Add("///")
	f.Fuzz(func(t *testing.T, id string) {
		name, pid, since, err := ParseID(id)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%q: %v: want ErrCorrupt", id, err)
			}
			return
		}
		if name == "" || len(id) > MaxID || since.IsZero() {
			t.Errorf("%q: %q %d %v", id, name, pid, since)
		}
	})
}

func TestDefinite(t *testing.T) {
	for err, want := range map[error]bool{
		ErrLocked: true, ErrNotHeld: true, ErrInvalid: true, ErrUnsupported: true, ErrNotSent: true, ErrCorrupt: true, ErrClosed: true,
		&LockedError{Remaining: time.Second}: true,
		fmt.Errorf("x: %w", ErrNotSent):      true,
		errors.New("EOF"):                    false,
	} {
		if Definite(err) != want {
			t.Errorf("Definite(%v) is %v", err, !want)
		}
	}
}

func TestClaims(t *testing.T) {
	all := Claims(AllClaims())
	seen := map[Claim]bool{}
	for _, c := range all {
		if seen[c] || c == "" {
			t.Errorf("claim %q is empty or listed twice", c)
		}
		seen[c] = true
	}
	cs := Claims{Fair, Wake}
	if !cs.Has(Fair) || cs.Has(Break) {
		t.Error("Has")
	}
	if m := cs.Missing(Wake, Break, Inspect); len(m) != 2 || m[0] != Break || m[1] != Inspect {
		t.Errorf("missing %v", m)
	}
}

func TestTokenJSON(t *testing.T) {
	b, err := json.Marshal(struct{ Token Token }{1<<62 + 1})
	if string(b) != `{"Token":"4611686018427387905"}` || err != nil {
		t.Errorf("%s, %v", b, err)
	}
	for in, want := range map[string]Token{`"5"`: 5, `5`: 5} {
		var tok Token
		if err := json.Unmarshal([]byte(in), &tok); tok != want || err != nil {
			t.Errorf("%s: %d, %v", in, tok, err)
		}
	}
	var tok Token
	if err := json.Unmarshal([]byte(`"five"`), &tok); !errors.Is(err, ErrInvalid) {
		t.Errorf("%v: want ErrInvalid", err)
	}
}
