package outbox

import (
	"math/rand/v2"
	"time"
)

// NewID draws a ULID for an instant: 48 bits of milliseconds and 80 random bits, in Crockford's base 32. Uniqueness
// comes from the random bits; order comes from the timestamp.
//
// The bits are those of the runtime's generator, which the kernel seeds for each process. Nothing rests on an event's id
// being hard to guess, and crypto/rand with its dependencies costs every skill a tenth of its start-up time.
func NewID(at time.Time) string {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var id [26]byte
	put := func(from, to int, bits uint64) {
		for i := to - 1; i >= from; i-- {
			id[i] = alphabet[bits%32]
			bits /= 32
		}
	}
	put(0, 10, uint64(at.UnixMilli())&(1<<48-1)) // the year 10889 is where 48 bits end
	put(10, 18, rand.Uint64())
	put(18, 26, rand.Uint64())
	return string(id[:])
}
