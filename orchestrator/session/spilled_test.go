package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestSmallMembersAreBounded checks that members of a large result are kept only if the kept result stays bounded.
func TestSmallMembersAreBounded(t *testing.T) {
	t.Parallel()
	ref := json.RawMessage(`{"path":".lattice/spill/` + strings.Repeat("0", 64) + `","size":1,"sha256":"` + strings.Repeat("0", 64) + `"}`)
	objectOf := func(members int, name, value string) json.RawMessage {
		var all []string
		for i := range members {
			all = append(all, fmt.Sprintf(`"%s%d":%s`, name, i, value))
		}
		return json.RawMessage("{" + strings.Join(all, ",") + "}")
	}
	for _, tc := range []struct {
		name string
		data json.RawMessage
		fits bool
	}{
		{"large ones", objectOf(20, "a", `"`+strings.Repeat("x", maxMember)+`"`), true},
		{"some", objectOf(1000, "a", `"`+strings.Repeat("x", 1000)+`"`), true},
		{"many", objectOf(200_000, "", "1"), false},
		{"long names", objectOf(2, strings.Repeat("n", maxWhole), "1"), false},
	} {
		got, err := smallMembers(tc.data, ref)
		if (err == nil) != tc.fits || len(got) > 3*maxWhole {
			t.Errorf("%s: %d bytes, %v", tc.name, len(got), err)
		}
	}
}
