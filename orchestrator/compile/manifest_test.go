package compile

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
)

func TestManifest(t *testing.T) {
	full := func(rest string) string {
		return `{"name":"a.b","description":"d","permissions":[],"side_effect":"read"` + rest + `}`
	}
	for name, c := range map[string]struct {
		doc  string
		want []string
	}{
		"fine":              {full(`,"inputs":["x",{"name":"y","type":"integer"}],"examples":[{"x":1,"y":2}],"$schema":"s"`), nil},
		"the seed's":        {`{"name":"github.open_pr","inputs":["title","body","branch"],"outputs":["pr_url"],"permissions":["github:write"],"produces_events":true}`, []string{"warning description_missing /description", "warning side_effect_missing /side_effect"}},
		"no JSON":           {`{`, []string{"error json_invalid "}},
		"no object":         {`[]`, []string{"error type_mismatch "}},
		"twice":             {full(`,"name":"c.d"`), []string{"error key_duplicate /name"}},
		"no name":           {`{"description":"d"}`, []string{"error name_invalid /name"}},
		"bad name":          {full(`,"version":1`), []string{"error version_invalid /version"}},
		"unknown members":   {full(`,"input":[],"inputs":[{"name":"x","typ":"string"}],"variants":{"input":"x","default":"a","cases":{"a":{"class":"read"}}}`), []string{"error field_unknown /input", "error field_unknown /inputs/0/typ", "error field_unknown /variants/cases/a/class", "error variants_invalid /variants/input"}},
		"bad types":         {full(`,"inputs":[{"name":"x","type":"text"}],"timeout_s":-1`), []string{"error inputs_invalid /inputs/0/type", "error timeout_s_invalid /timeout_s"}},
		"input twice":       {full(`,"inputs":["x","x"]`), []string{"error inputs_invalid /inputs/1"}},
		"bad class":         {`{"name":"a.b","description":"d","permissions":[],"side_effect":"none"}`, []string{"error side_effect_invalid /side_effect"}},
		"bad permission":    {`{"name":"a.b","description":"d","permissions":["fs read","fs:raed"],"side_effect":"read"}`, []string{"error permissions_invalid /permissions/0"}},
		"other permission":  {`{"name":"a.b","description":"d","permissions":["fs:raed"],"side_effect":"read"}`, []string{"warning permission_unknown /permissions/0"}},
		"example":           {full(`,"inputs":[{"name":"x","type":"string","required":true}],"examples":[{"x":"a"},{"z":1}]`), []string{"error example_invalid /examples/1/x", "error example_invalid /examples/1/z"}},
		"bare":              {`{"name":"a.b"}`, []string{"warning description_missing /description", "warning permissions_missing /permissions", "warning side_effect_missing /side_effect"}},
		"default no string": {full(`,"inputs":[{"name":"x","type":"string","default":3}]`), []string{"error inputs_invalid /inputs/0/default"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, findings := Manifest([]byte(c.doc))
			var got []string
			for _, f := range findings {
				got = append(got, f.Severity+" "+f.Code+" "+f.Pointer)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Manifest(%s) (-want +got):\n%s%+v", c.doc, diff, findings)
			}
		})
	}
	for _, s := range manifests.Skills() {
		if _, findings := Manifest(manifests.Raw(s.Name)); len(findings) > 0 {
			t.Errorf("our own %s: %+v", s.Name, findings)
		}
	}
}
