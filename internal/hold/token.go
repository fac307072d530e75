package hold

import (
	"fmt"

	"github.com/coordgo/coord/driver"
)

// A fencing token is the store's fencing value, shifted left by SeqBits, plus the number of times that one
// hold of the store was handed over inside its client.
const (
	SeqBits      = 10
	maxHandOvers = 1<<SeqBits - 1
	// MaxFloor is the greatest token that Floor takes. It leaves half of the range to the store.
	MaxFloor = 1 << 52 << SeqBits
)

// Floor is what Config.Floor has to be for tokens greater than t.
func Floor(t driver.Token) int64 { return int64(t>>SeqBits) + 1 }

// MakeToken makes a fencing token of a store's value and the number of hand-overs.
func MakeToken(store, floor int64, handOvers int) (driver.Token, error) {
	if store < 1 || floor > driver.MaxToken || store > driver.MaxToken-floor || handOvers > maxHandOvers {
		return 0, fmt.Errorf("%w: store's fencing value %d above floor %d, hand-over %d: want 1 to 2^53-1 and at most %d",
			driver.ErrUnsupported, store, floor, handOvers, maxHandOvers)
	}
	return driver.Token((store+floor)<<SeqBits | int64(handOvers)), nil
}
