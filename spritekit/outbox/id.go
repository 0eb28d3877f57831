package outbox

import (
	"crypto/rand"
	"time"

	"github.com/oklog/ulid/v2"
)

// NewID draws a ULID for an instant. Uniqueness comes from its 80 random bits; order comes from the timestamp.
func NewID(at time.Time) string {
	var id ulid.ULID
	id.SetTime(ulid.Timestamp(at)) // fails after the year 10889 only
	rand.Read(id[6:])              // never fails: crypto/rand ends the process instead
	return id.String()
}
