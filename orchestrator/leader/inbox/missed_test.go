package inbox

import (
	"slices"
	"testing"

	"github.com/spritekit/lattice/orchestrator/forge"
)

func TestFindMissed(t *testing.T) {
	all := []forge.Delivery{ // the newest first
		{ID: 12, GUID: "late"}, {ID: 11, GUID: "again", OK: true}, {ID: 10, GUID: "never"}, {ID: 9, GUID: "fine", OK: true}, {ID: 8, GUID: "never"}, {ID: 7, GUID: "again"},
	}
	for id := int64(6); id > 0 && id <= maxAttempts+1; id-- {
		all = append(all, forge.Delivery{ID: id, GUID: "given up"})
	}
	var ids []int64
	for _, d := range findMissed(all) {
		ids = append(ids, d.ID)
	}
	if !slices.Equal(ids, []int64{10, 12}) {
		t.Errorf("the missed deliveries are %v", ids)
	}
}
