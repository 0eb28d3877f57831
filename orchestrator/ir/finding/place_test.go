package finding

import (
	"fmt"
	"testing"
)

// TestSetPlaces: a finding has the line and column of what it is about, or of the nearest part that is there.
func TestSetPlaces(t *testing.T) {
	t.Parallel()
	const doc = "{\r\n  \"id\": \"ä\",\n\t\"nodes\" : [ {\"id\":\"a\"} ,\n {\"op\": {\"x/y\": [1,\n2]}, \"op\":1}], \"é\":{}, \"z\": 1}\n"
	for _, tt := range []struct{ doc, pointer, want string }{
		{doc, "", "1:1"},
		{doc, "/id", "2:3"},
		{doc, "/nodes", "3:2"},
		{doc, "/nodes/0", "3:14"},
		{doc, "/nodes/0/id", "3:15"},
		{doc, "/nodes/0/tool", "3:14"},
		{doc, "/nodes/1/op", "5:6"}, // the second of two
		{doc, "/nodes/1/op/x~1y/1", "5:1"},
		{doc, "/nodes/7", "3:2"},
		{doc, "/é", "5:16"},
		{doc, "/z", "5:24"},
		{doc, "/none/at/all", "1:1"},
		{"\n {\"a\": 1,\n  }", "", "3:3"},
		{"{\"a\": [1, 2", "/a/1", "1:11"},
		{"", "", "1:1"},
		{"  null", "/x", "1:3"},
		{"{} {}", "", "1:4"},
	} {
		got := SetPlaces([]byte(tt.doc), []Finding{{Pointer: tt.pointer}})[0]
		if place := fmt.Sprintf("%d:%d", got.Line, got.Column); place != tt.want {
			t.Errorf("%q of %.20q is at %s, want %s", tt.pointer, tt.doc, place, tt.want)
		}
	}
}
