package history

import (
	"encoding/json"
	"testing"

	"github.com/spritekit/lattice/orchestrator/store"
)

// Runs share their program if they have the same document and the same skills.
func TestProgramsAreShared(t *testing.T) {
	doc := func(id string) []byte {
		return []byte(`{"execir_version":"1.0","id":"` + id + `","tools":[],"entry_node":"p","nodes":[{"id":"p","op":"PACK","inputs":{"a":1}}],"edges":[]}`)
	}
	rs := &Records{}
	parse := func(document []byte, pinned ...json.RawMessage) any {
		p, err := rs.Parse(Run{RunRecord: store.RunRecord{Program: document}, Kept: Options{Pinned: pinned}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	skill := json.RawMessage(`{"name":"a.b"}`)
	if parse(doc("x")) != parse(doc("x")) || parse(doc("x"), skill) != parse(doc("x"), skill) {
		t.Error("runs of one document have programs of their own")
	}
	if parse(doc("x")) == parse(doc("y")) || parse(doc("x")) == parse(doc("x"), skill) {
		t.Error("runs of different documents or skills share a program")
	}
	if p := rs.Share(nil, doc("x"), nil); p != parse(doc("x")) {
		t.Error("a new run does not share the program of others")
	}
	if _, err := rs.Parse(Run{RunRecord: store.RunRecord{Program: []byte("{}")}}); err == nil {
		t.Error("a document without a version has a program")
	}
}
