package driver

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Holder is what a store shows of the hold on a key.
type Holder struct {
	// ID of the hold. Name, PID and Since are read from it; they are zero
	// if the id is not one of coord's.
	ID    string
	Name  string
	PID   int
	Since time.Time
	// Leader: it holds by Lead, and so leads the key. It is read from the ID, too.
	Leader bool
	// Token of the hold. An adapter fills in the store's value; the core
	// hands out the complete fencing token.
	Token Token
	// TTL left of the lease.
	TTL time.Duration
	// Waiters in the queue, -1 where the store does not know.
	Waiters int
	// Released: nobody holds; the key is kept taken until TTL is over, by
	// MinHold or by Break, or while it is offered to the waiter of ID.
	Released bool
	// Mode is how a shared hold shares its key; Weight is how many permits it has, Of how many its holder took
	// there to be at most, and Slot its number among the holds of the key. An exclusive hold has none of these.
	Mode       Mode
	Weight, Of int64
	Slot       int
}

// NewHolder fills in what the id tells.
func NewHolder(id string, token int64, ttl time.Duration) Holder {
	h := Holder{ID: id, Token: Token(token), TTL: ttl, Waiters: -1}
	if name, pid, since, err := ParseID(id); err == nil {
		h.Name, h.PID, h.Since, h.Leader = name, pid, since, strings.HasSuffix(id, LeaderMark)
	}
	return h
}

// Token is a fencing token: positive, and strictly greater for each later
// holder of a key. It fits a SQL BIGINT. In JSON it is a string, because many
// readers of JSON round numbers above 2^53.
type Token int64

// MarshalJSON writes the token as a decimal string.
func (t Token) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(int64(t), 10)), nil
}

// UnmarshalJSON reads a decimal string, or a plain number.
func (t *Token) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(data), `"`), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: token %s is not a decimal integer", ErrInvalid, data)
	}
	*t = Token(n)
	return nil
}
