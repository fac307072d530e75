package postgres

import (
	"testing"
	"time"

	"github.com/coordgo/coord/driver"
)

// What another user has made in a schema of the session's search path is not called in the place of the server's own
// functions and operators.
func TestFunctionsOfOtherUsers(t *testing.T) {
	t.Parallel()
	srv := server(t)
	admin(t, superuser(t, srv.Addr), `
		CREATE FUNCTION public.cardinality(bytea[]) RETURNS int LANGUAGE sql AS 'SELECT 0';
		CREATE FUNCTION public.never(oid, regnamespace) RETURNS bool LANGUAGE sql AS 'SELECT false';
		CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = regnamespace, FUNCTION = public.never);`)
	b := open(t, patientURL(t, srv.Addr))
	l := limitOf(t, 1, time.Hour)
	demands := []driver.Demand{{Key: "a", Limit: l, N: 1}, {Key: "b", Limit: l, N: 1}}
	for _, want := range []int{1, 0} {
		taken := must[[]driver.Taken](t)(b.TakeAll(t.Context(), demands))
		if taken[0].Asks[0].N != want || taken[1].Asks[0].N != want {
			t.Errorf("%+v: want %d permits of each", taken, want)
		}
	}
}
