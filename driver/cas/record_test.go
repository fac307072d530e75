package cas

import (
	"errors"
	"testing"

	"github.com/coordgo/coord/driver"
)

func TestRecordText(t *testing.T) {
	for text, want := range map[string]record{
		"coord-lock 2 free token=7\n":                                   {state: free, token: 7},
		"coord-lock 2 held token=7 ttl=9 until=1000 id=a/1=b\n":         {state: held, token: 7, ttl: 9, until: 1000, id: "a/1=b"},
		"coord-lock 2 kept token=9007199254740991 ttl=9 until=1 id=a\n": {state: kept, token: driver.MaxToken, ttl: 9, until: 1, id: "a"},
	} {
		got, err := parseRecord([]byte(text))
		if err != nil || got != want {
			t.Errorf("parse %q: %+v, %v, want %+v", text, got, err, want)
		}
		if back := string(want.append(nil)); back != text {
			t.Errorf("append: %q, want %q", back, text)
		}
	}
	if got, err := parseRecord(nil); err != nil || got != (record{}) {
		t.Errorf("no cell: %+v, %v", got, err)
	}
}

var badRecords = []string{
	"", "\n", "free", "coord-lock 2", "coord-lock 2 \n",
	"coord-lock 1 free token=7\n", "coord-lock 3 free token=7\n",
	"coord-lock 2 held token=7 until=1000 id=a\n",           // no TTL
	"coord-lock 2 held token=7 ttl=0 until=1000 id=a\n",     //
	"coord-lock 2 free token=7",                             // cut off
	"coord-lock 2 free token=7\n\n",                         // more
	"coord-lock 2 free token=07\n",                          // not canonical
	"coord-lock 2 free token=+7\n",                          //
	"coord-lock 2 free  token=7\n",                          //
	"coord-lock 2 free token=0\n",                           // no token
	"coord-lock 2 free token=-7\n",                          //
	"coord-lock 2 free token=9007199254740992\n",            // too great
	"coord-lock 2 free token=99999999999999999999\n",        //
	"coord-lock 2 free token=7 ttl=9 until=1 id=a\n",        // too much
	"coord-lock 2 held token=7\n",                           // too little
	"coord-lock 2 held token=7 ttl=9 until=1\n",             //
	"coord-lock 2 held token=7 ttl=9 until=1 id=\n",         //
	"coord-lock 2 held token=7 ttl=9 until=-1 id=a\n",       //
	"coord-lock 2 held token=7 ttl=9 id=a until=1\n",        // order
	"coord-lock 2 lent token=7 ttl=9 until=1 id=a\n",        // state
	"coord-lock 2 held token=7 ttl=9 until=1 id=a\x00\n",    // not printable
	"coord-lock 2 held token=7 ttl=9 until=1 id=\xc3\xa4\n", //
	"coord-lock 2 held token=7 ttl=9 until=1 id=a\u2003b\n", // a space of another kind
	"coord-lock 2 held\ttoken=7\tttl=9\tuntil=1\tid=a\n",    //
}

func TestRecordRefusals(t *testing.T) {
	for _, text := range badRecords {
		if r, err := parseRecord([]byte(text)); !errors.Is(err, driver.ErrCorrupt) {
			t.Errorf("parse %q: %+v, %v, want ErrCorrupt", text, r, err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	for _, text := range badRecords {
		f.Add([]byte(text))
	}
	f.Add([]byte("coord-lock 2 held token=7 ttl=9 until=1000 id=a/1=b\n"))
	f.Add([]byte("coord-lock 2 free token=7\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRecord(text)
		if err != nil {
			if !errors.Is(err, driver.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			return
		}
		if text != nil && string(r.append(nil)) != string(text) {
			t.Fatalf("%q reads as %+v, which writes as %q", text, r, r.append(nil))
		}
		if text != nil && (r.token < 1 || r.token > driver.MaxToken || r.state != free && driver.CheckID(r.id) != nil) {
			t.Fatalf("%q reads as %+v", text, r)
		}
	})
}
