package compile

import (
	"strings"
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
		"unknown members":   {full(`,"input":[],"inputs":[{"name":"x","typ":"string"}],"variants":{"input":"x","default":"a","cases":{"a":{"class":"read"}}}`), []string{"error field_unknown /input", "error field_unknown /inputs/0/typ", "error inputs_invalid /inputs/0/type", "error field_unknown /variants/cases/a/class", "error variants_invalid /variants/input"}},
		"bad types":         {full(`,"inputs":[{"name":"x","type":"text"}],"timeout_s":-1`), []string{"error inputs_invalid /inputs/0/type", "error timeout_s_invalid /timeout_s"}},
		"input twice":       {full(`,"inputs":["x","x"]`), []string{"error inputs_invalid /inputs/1"}},
		"bad class":         {`{"name":"a.b","description":"d","permissions":[],"side_effect":"none"}`, []string{"error side_effect_invalid /side_effect"}},
		"bad permission":    {`{"name":"a.b","description":"d","permissions":["fs read","fs:raed"],"side_effect":"read"}`, []string{"error permissions_invalid /permissions/0", "warning permission_unknown /permissions/1"}},
		"other permission":  {`{"name":"a.b","description":"d","permissions":["fs:raed"],"side_effect":"read"}`, []string{"warning permission_unknown /permissions/0"}},
		"far permission":    {`{"name":"a.b","description":"d","permissions":["*"],"optional_permissions":["mail:send"],"side_effect":"read"}`, []string{"warning permission_unknown /optional_permissions/0", "error permissions_invalid /permissions/0"}},
		"case permission":   {full(`,"inputs":[{"name":"m","type":"string"}],"variants":{"input":"m","default":"a","cases":{"a":{"permissions":["net","nett"],"side_effect":"read"}}}`), []string{"warning permission_unknown /variants/cases/a/permissions/1"}},
		"long timeout":      {full(`,"timeout_s":31622401`), []string{"error timeout_s_invalid /timeout_s"}},
		"longest timeout":   {full(`,"timeout_s":31622400`), nil},
		"no schemas":        {full(`,"input_schema":3,"output_schema":[]`), []string{"error input_schema_invalid /input_schema", "error output_schema_invalid /output_schema"}},
		"schema":            {full(`,"input_schema":{"type":["object","null"],"required":["x"],"properties":{"x":{"type":"integer","minimum":-1.5,"maxLength":2.0},"y":true},"items":[{},false],"allOf":[{"not":{}}],"dependencies":{"x":["y"],"y":{}},"dependentRequired":{"x":["y"]},"default":1,"x-mine":{"type":3}}`), nil},
		"schema type":       {full(`,"output_schema":{"type":3}`), []string{"error output_schema_invalid /output_schema/type"}},
		"schema types":      {full(`,"input_schema":{"type":"objekt","properties":{"x":{"type":["string","string"]},"y":{"type":[]},"a/b":{"type":"text"}}}`), []string{"error input_schema_invalid /input_schema/properties/a~1b/type", "error input_schema_invalid /input_schema/properties/x/type", "error input_schema_invalid /input_schema/properties/y/type", "error input_schema_invalid /input_schema/type"}},
		"schema keywords":   {full(`,"input_schema":{"enum":{},"items":3,"maxItems":1.5,"minItems":-1,"multipleOf":0,"pattern":1,"properties":[],"readOnly":"x","required":["x","x"]}`), []string{"error input_schema_invalid /input_schema/enum", "error input_schema_invalid /input_schema/items", "error input_schema_invalid /input_schema/maxItems", "error input_schema_invalid /input_schema/minItems", "error input_schema_invalid /input_schema/multipleOf", "error input_schema_invalid /input_schema/pattern", "error input_schema_invalid /input_schema/properties", "error input_schema_invalid /input_schema/readOnly", "error input_schema_invalid /input_schema/required"}},
		"schema in schema":  {full(`,"input_schema":{"$defs":{"d":{"anyOf":[{"if":{"minimum":"1"}}]}},"dependencies":{"x":[1]},"dependentRequired":{"x":[1]},"items":[1],"oneOf":[]}`), []string{"error input_schema_invalid /input_schema/$defs/d/anyOf/0/if/minimum", "error input_schema_invalid /input_schema/dependencies/x", "error input_schema_invalid /input_schema/dependentRequired", "error input_schema_invalid /input_schema/items/0", "error input_schema_invalid /input_schema/oneOf"}},
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
	for permission, want := range map[string]string{"fs:rea": `did you mean "fs:read"?`, "mail:send": "known: " + strings.Join(manifests.Permissions(), ", ")} {
		_, findings := Manifest([]byte(`{"name":"a.b","description":"d","side_effect":"read","permissions":["` + permission + `"]}`))
		if len(findings) != 1 || findings[0].Hint != want {
			t.Errorf("permission %s: %+v, want the hint %q", permission, findings, want)
		}
	}
	for _, s := range manifests.Skills() {
		if _, findings := Manifest(manifests.Raw(s.Name)); len(findings) > 0 {
			t.Errorf("our own %s: %+v", s.Name, findings)
		}
	}
}
