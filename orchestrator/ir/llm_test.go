package ir_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/ir/check"
)

// pick is a sound LLM_CHOOSE; old and new pairs change its text.
func pick(t *testing.T, replace ...string) string {
	t.Helper()
	node := `{"id":"a","op":"LLM_CHOOSE","model_class":"SMALL_EXEC","prompt_template":"choose_v1","inputs":{"candidates":"$in.found","question":"which?"},` +
		`"output_schema":"ChoiceById","validators":[{"type":"json_schema","schema":"ChoiceById"},{"type":"invariant","expr":"$out.id in $in.candidates[*].id"}],` +
		`"retry_policy":{"strategy":"PATCH_JSON_FROM_ERROR","max_attempts":2},"escalation":{"on":["schema_failure"],"to_model_class":"MEDIUM_PLAN"},"resolve":true,` +
		`"outputs":{"result":"$vars.c","item":"$vars.item","id":"$vars.id","attempts":"$vars.n"}}`
	doc := `{"execir_version":"1.0","model_classes":["SMALL_EXEC","MEDIUM_PLAN"],"entry_node":"a","nodes":[` + node + `],"edges":[],"output":"$vars.c.id"}`
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(doc, replace[i]) {
			t.Fatalf("there is no %s to replace", replace[i])
		}
		doc = strings.Replace(doc, replace[i], replace[i+1], 1)
	}
	return doc
}

// own is a template of a document's own.
const own = `{"id":"my_v1","op":"LLM_CHOOSE","version":"1","input_ports":{"candidates":{},"question":{}},"system":"s","user":"{{question}} {{candidates}}","repair":"{{packet}}","max_prompt_bytes":9999}`

func TestParseQuestions(t *testing.T) {
	const at = " /nodes/0"
	for name, tt := range map[string]struct {
		replace []string
		want    []string
	}{
		"sound":                    {nil, nil},
		"no class":                 {[]string{`"model_class":"SMALL_EXEC",`, ``}, []string{"field_missing" + at + "/model_class"}},
		"a class of another form":  {[]string{`"model_class":"SMALL_EXEC",`, `"model_class":"small",`}, []string{"model_class_invalid" + at + "/model_class"}},
		"a class that is not ours": {[]string{`"model_class":"SMALL_EXEC",`, `"model_class":"LARGE",`}, []string{"model_class_not_allowed" + at + "/model_class"}},
		"no template":              {[]string{`"prompt_template":"choose_v1",`, ``}, []string{"field_missing" + at + "/prompt_template"}},
		"a template of nobody":     {[]string{`"choose_v1"`, `"choose_v9"`}, []string{"template_unknown" + at + "/prompt_template"}},
		"a template for others":    {[]string{`"choose_v1"`, `"classify_v1"`}, []string{"port_unknown" + at + "/inputs/candidates", "port_missing" + at + "/inputs/labels", "port_missing" + at + "/inputs/text", "template_schema" + at + "/output_schema", "template_op" + at + "/prompt_template"}},
		"a template that changed":  {[]string{`"entry_node"`, `"templates":{"choose_v1":"sha256:00"},"entry_node"`}, []string{"template_changed /templates/choose_v1"}},
		"a template of our own":    {[]string{`"choose_v1"`, `"my_v1"`, `"entry_node"`, `"prompt_templates":{"my_v1":` + own + `},"entry_node"`}, nil},
		"one that is none":         {[]string{`"choose_v1"`, `"my_v1"`, `"entry_node"`, `"prompt_templates":{"my_v1":{"id":"my_v1"}},"entry_node"`}, []string{"template_invalid /prompt_templates/my_v1"}},
		"one under another name":   {[]string{`"entry_node"`, `"prompt_templates":{"your_v1":` + own + `},"entry_node"`}, []string{"template_invalid /prompt_templates/your_v1/id"}},
		"one of ours, changed":     {[]string{`"entry_node"`, `"prompt_templates":{"choose_v1":` + strings.Replace(own, "my_v1", "choose_v1", 1) + `},"entry_node"`}, []string{"template_shadows /prompt_templates/choose_v1"}},
		"a port missing":           {[]string{`,"question":"which?"`, ``}, []string{"choose_blind" + at + "/inputs", "port_missing" + at + "/inputs/question"}},
		"a port too many":          {[]string{`"question"`, `"why":1,"question"`}, []string{"port_unknown" + at + "/inputs/why"}},
		"no candidates":            {[]string{`"candidates":"$in.found",`, ``}, []string{"field_missing" + at + "/inputs/candidates", "port_missing" + at + "/inputs/candidates"}},
		"candidates apart":         {[]string{`"inputs":{"candidates":"$in.found",`, `"candidates":"$in.found","inputs":{`}, nil},
		"no schema":                {[]string{`"output_schema":"ChoiceById",`, ``}, []string{"field_missing" + at + "/output_schema"}},
		"a schema of nobody":       {[]string{`"output_schema":"ChoiceById"`, `"output_schema":"Choice"`}, []string{"schema_unknown" + at + "/output_schema", "template_schema" + at + "/output_schema"}},
		"a schema of no object":    {[]string{`"entry_node"`, `"schemas":{"ChoiceById":{"type":"string"}},"entry_node"`}, []string{"schema_no_object" + at + "/output_schema"}},
		"no validators":            {[]string{`"validators":[{"type":"json_schema","schema":"ChoiceById"},{"type":"invariant","expr":"$out.id in $in.candidates[*].id"}],`, ``}, []string{"field_missing" + at + "/validators"}},
		"a validator of nobody":    {[]string{`"json_schema"`, `"xml_schema"`}, []string{"validator_unknown" + at + "/validators/0/type"}},
		"an unclear invariant":     {[]string{`"$out.id in $in.candidates[*].id"`, `"$out.id of"`}, []string{"invariant_invalid" + at + "/validators/1/expr"}},
		"an invariant of $vars":    {[]string{`"$out.id in`, `"$vars.x in`}, []string{"ref_scope" + at + "/validators/1/expr"}},
		"an invariant of nothing":  {[]string{`,"expr":"$out.id in $in.candidates[*].id"`, ``}, []string{"invariant_form" + at + "/validators/1"}},
		"no policy":                {[]string{`"retry_policy":{"strategy":"PATCH_JSON_FROM_ERROR","max_attempts":2},`, ``}, []string{"field_missing" + at + "/retry_policy"}},
		"a strategy of nobody":     {[]string{`PATCH_JSON_FROM_ERROR`, `PATCH_JSON`}, []string{"strategy_unknown" + at + "/retry_policy/strategy"}},
		"too many attempts":        {[]string{`"max_attempts":2`, `"max_attempts":6`}, []string{"limit_invalid" + at + "/retry_policy/max_attempts"}},
		"escalation to itself":     {[]string{`"to_model_class":"MEDIUM_PLAN"`, `"to_model_class":"SMALL_EXEC"`}, []string{"escalation_twice" + at + "/escalation/0/to_model_class"}},
		"escalation downward":      {[]string{`["SMALL_EXEC","MEDIUM_PLAN"]`, `["MEDIUM_PLAN","SMALL_EXEC"]`}, []string{"escalation_down" + at + "/escalation/0/to_model_class"}},
		"escalation on nothing":    {[]string{`["schema_failure"]`, `["wrath"]`}, []string{"failure_kind_unknown" + at + "/escalation/0/on/0"}},
		"a member that is none":    {[]string{`"$vars.c.id"`, `"$vars.c.email"`}, []string{"member_unknown /output"}},
		"a port that is none":      {[]string{`"attempts":`, `"tries":`}, []string{"port_unknown" + at + "/outputs/tries"}},
		"no item without resolve":  {[]string{`"resolve":true,`, ``}, []string{"port_unknown" + at + "/outputs/item"}},
		"a cache":                  {[]string{`"resolve":true,`, `"resolve":true,"cache":"run",`}, nil},
		"a cache for ever":         {[]string{`"resolve":true,`, `"resolve":true,"cache":"ever",`}, []string{"cache_invalid" + at + "/cache"}},
		"labels on a choice":       {[]string{`"resolve":true,`, `"resolve":true,"labels":["a"],`}, []string{"field_not_allowed" + at + "/labels"}},
		"a rule for calls":         {[]string{`"resolve":true,`, `"resolve":true,"retry":[{"on":["ALL"]}],`}, []string{"field_not_allowed" + at + "/retry"}},
		"a timeout":                {[]string{`"resolve":true,`, `"resolve":true,"timeout_s":3,`}, nil},
	} {
		p, findings := check.Parse([]byte(pick(t, tt.replace...)), tools)
		var got []string
		for _, f := range findings {
			got = append(got, f.Code+" "+f.Pointer)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: findings (-want +got):\n%s\n%+v", name, diff, findings)
		}
		if p != nil && !cmp.Equal(p.ModelClasses(), []string{"MEDIUM_PLAN", "SMALL_EXEC"}) {
			t.Errorf("%s: ModelClasses() = %v", name, p.ModelClasses())
		}
	}
}
