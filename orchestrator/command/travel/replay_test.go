package travel

import (
	"testing"

	"github.com/spritekit/lattice/spritekit/fault"
)

// A journal that is too large is refused before it is read.
func TestReadJournalRefuses(t *testing.T) {
	t.Parallel()
	if _, err := readJournal(make([]byte, maxJournal+1)); fault.As(err) == nil || fault.As(err).Code != "journal_too_large" {
		t.Errorf("readJournal = %v, want journal_too_large", err)
	}
}
