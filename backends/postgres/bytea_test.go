package postgres

import (
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// Sessions whose bytea_output is escape, as it was before PostgreSQL 9, read keys and values as others do.
func TestByteaOutput(t *testing.T) {
	t.Parallel()
	srv := server(t)
	set(t, srv.Addr, "bytea_output = 'escape'")
	for name, prepared := range map[string]string{"not-prepared": "", "prepared": "&prepared=true"} {
		t.Run(name, func(t *testing.T) { testByteaOutput(t, patientURL(t, srv.Addr)+prepared, name+`\x00/é`) })
	}
}

func testByteaOutput(t *testing.T, url, key string) {
	b, other := open(t, url), open(t, url)
	ctx := t.Context()
	r := request("a", time.Hour)
	mustTry(t, b, key, r)
	must[driver.Grant](t)(b.Renew(ctx, key, r))
	var held []string
	for k, err := range b.List(ctx, key) {
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, k)
	}
	if len(held) != 1 || held[0] != key {
		t.Errorf("List: %q, want %q", held, key)
	}

	l := limitOf(t, 5, time.Hour)
	for i, client := range []*backend{b, other, b} { // the last one's state is old, so that its swap is refused
		taken := must[driver.TakenOne](t)(client.TakeOne(ctx, key, l, driver.Ask{Min: 1, N: 1}))
		if taken.N != 1 {
			t.Errorf("permit %d: %+v", i+1, taken)
		}
	}
	if p := must[driver.TakenOne](t)(other.TakeOne(ctx, key, l, driver.Ask{})); p.Remaining != 2 {
		t.Errorf("Peek: %+v, want 2 permits that remain", p)
	}

	for range 2 {
		reader := request("reader", time.Hour)
		reader.Share.Mode = driver.Read
		mustTry(t, b.Shared(), key, reader)
	}
	if holders := must[[]driver.Holder](t)(other.Shared().Holders(ctx, key)); len(holders) != 2 {
		t.Errorf("Holders: %+v, want 2", holders)
	}
}
