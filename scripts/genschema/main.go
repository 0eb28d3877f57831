// Command genschema writes the JSON schemas of the product's documents from the Go types that read and write them:
//
//	go run ./scripts/genschema manifests/schema
//
// and the OpenAPI description of the leader's interface next to its handler. Start with documents, the list of
// the files, and describe; reflect.go turns types into schemas, comments.go their comments into descriptions, and contract
// holds the rules that types cannot express. A schema describes the output of our writers; readers of events and results
// accept more (DESIGN 9). The test of this package fails if a checked-in schema is out of date.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/manifests/templates"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/attest"
	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/fleet"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/test"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/loop"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: genschema DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "genschema:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	files, err := makeSchemas()
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return fmt.Errorf("write schema: %w", err)
		}
	}
	description, err := describeAPI()
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, describePath), description, 0o644); err != nil {
		return fmt.Errorf("write description: %w", err)
	}
	return nil
}

// document is one schema that is written.
type document struct {
	name, title string
	t           reflect.Type
	more        func(*generator) schema
}

func listDocuments() []document {
	all := []document{
		{"event", "An event of the sprite protocol v1", reflect.TypeFor[protocol.Event](), bindPayloads},
		{"result", "The last line that a skill prints", reflect.TypeFor[protocol.Result](), resultForms},
		{"session-call", "A call, as spritekit session reads it: one line", reflect.TypeFor[protocol.SessionCall](), nil},
		{"session-cancel", "The other line that spritekit session reads: end a call", reflect.TypeFor[protocol.SessionCancel](), nil},
		{"session-result", "The last line of a call, as spritekit session writes it", reflect.TypeFor[protocol.SessionResult](), resultForms},
		{"session-output", "What a call printed beside its events, as spritekit session writes it", reflect.TypeFor[protocol.SessionOutput](), nil},
		{"session-note", "What spritekit session says of itself", reflect.TypeFor[protocol.SessionNote](), nil},
		{"skill", "A skill's manifest, skill.json", reflect.TypeFor[manifests.Skill](), fieldForm},
		{"workflow", "A workflow graph, the form in which flows are written", reflect.TypeFor[compile.Workflow](), nil},
		{"planir", "A plan, the form in which goals are written", reflect.TypeFor[compile.Plan](), nil},
		{"step-rule", "The rule by which a type of step becomes nodes of ExecIR", reflect.TypeFor[compile.Rule](), nil},
		{"prompt-template", "A prompt template, ID.json, for nodes that ask models", reflect.TypeFor[templates.Template](), nil},
		{"test", ".spritekit/test.json, how a project is tested", test.SettingsType(), nil},
		{"execir", "An ExecIR document, the form in which flows run", reflect.TypeFor[ir.Document](), escalationSchema},
		{"adapter", "An agent's adapter for agent.run, /skills/agents/NAME.json", adapter.Type(), adapterParts},
		{"task", "task.json, what a run is for", reflect.TypeFor[protocol.Task](), nil},
		{"answers", "answers.json, what people answered, by the names of what was asked", reflect.TypeFor[map[string]any](), nil},
		{"resume", "resume.json, the answer that a skill waits for", reflect.TypeFor[protocol.Resume](), nil},
		{"config", "config.toml, the settings of lattice", reflect.TypeFor[settings.Settings](), nil},
		{"policy", "policy.toml, the rules about what runs may do outside", reflect.TypeFor[policy.Document](), nil},
		{"board", "config.json of .lattice, the rules of a board", reflect.TypeFor[board.Config](), closeObject},
		{"worker", "A definition of a worker, .lattice/workers/NAME.toml", reflect.TypeFor[worker.Definition](), nil},
		{"fleet", "fleet.toml, the sprites that lattice fleet keeps", reflect.TypeFor[fleet.Document](), nil},
		{"board-event", "A line of .lattice/events/TASK.jsonl", reflect.TypeFor[board.Event](), nil},
		{"board-task", "A task of a board, the fold of its events", reflect.TypeFor[board.Task](), nil},
		{"loop-state", "state.json of a loop, the answer of its agent", reflect.TypeFor[loop.State](), nil},
		{"loop-tasks", "tasks.json of a loop", reflect.TypeFor[[]loop.Task](), nil},
		{"loop-history", "history.json of a loop, its last iterations", reflect.TypeFor[[]loop.Entry](), nil},
		{"loop-session", "session.json of a loop", reflect.TypeFor[loop.Session](), nil},
		{"loop-response", "response.json of a loop, a person's answer", reflect.TypeFor[loop.Response](), nil},
		{"loop-pr", "pr.json of a loop, the pull request that its agent proposes", reflect.TypeFor[loop.Pull](), nil},
		{"run", "The last line of lattice run --json", reflect.TypeFor[api.RunLine](), runError},
		{"verification", "The predicate of a statement that a commit was verified", reflect.TypeFor[attest.Predicate](), nil},
		{"findings", "What lattice flow validate --json and skill validate --json print", reflect.TypeFor[compile.Report](), nil},
	}
	for _, p := range payloadTypes() {
		name := "payload-" + strings.ReplaceAll(strings.ToLower(string(p.EventType())), "_", "-")
		all = append(all, document{name, "The payload of an event " + string(p.EventType()), reflect.TypeOf(p), nil})
	}
	for _, p := range actionTypes() {
		all = append(all, document{"action-" + strings.ReplaceAll(strings.ToLower(p.name), "_", "-"), "The parameters of the action " + p.name, p.t, closeObject})
	}
	return all
}

// An actionType is an action with the type of its parameters.
type actionType struct {
	name string
	t    reflect.Type
}

func actionTypes() []actionType {
	return []actionType{
		{protocol.ActionPushBranch, reflect.TypeFor[protocol.PushBranch]()}, {protocol.ActionOpenPR, reflect.TypeFor[protocol.OpenPR]()},
		{protocol.ActionPostComment, reflect.TypeFor[protocol.PostComment]()}, {protocol.ActionLabelIssue, reflect.TypeFor[protocol.LabelIssue]()},
		{protocol.ActionNotifyUser, reflect.TypeFor[protocol.NotifyUser]()}, {protocol.ActionFetchCredential, reflect.TypeFor[protocol.FetchCredential]()},
		{protocol.ActionUseTool, reflect.TypeFor[protocol.UseTool]()}, {protocol.ActionOpenIssues, reflect.TypeFor[protocol.OpenIssues]()},
	}
}

// closeObject refuses members that no definition has: requests are read strictly, unlike events.
func closeObject(g *generator) schema {
	if also, ok := g.defs[reflect.TypeFor[protocol.AlsoPush]().Name()].(schema); ok {
		also["additionalProperties"] = false
	}
	return schema{"unevaluatedProperties": false}
}

// makeSchemas returns the text of every schema by the name of its file.
func makeSchemas() (map[string][]byte, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	all := listDocuments()
	types := []reflect.Type{reflect.TypeFor[lattice.Wait](), reflect.TypeFor[fault.Error](), reflect.TypeFor[finding.Finding]()}
	for _, d := range all {
		types = append(types, d.t)
	}
	said, err := readComments(root, types...)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, d := range all {
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		g := generator{rules: contractRules(), comments: said}
		if err := e.Encode(g.makeDocument(d.name, d.title, d.t, d.more)); err != nil {
			return nil, fmt.Errorf("encode schema %s: %w", d.name, err)
		}
		files[d.name+".schema.json"] = text.Bytes()
	}
	return files, nil
}

func payloadTypes() []protocol.Payload {
	return []protocol.Payload{
		protocol.Info{}, protocol.PhaseStarted{}, protocol.PhaseFinished{}, protocol.ActionRequest{}, protocol.Artifact{},
		protocol.Waiting{}, protocol.Completed{}, protocol.Error{}, protocol.EnvironmentProposal{},
	}
}

// bindPayloads binds each event_type to its payload. Unknown types are allowed; they have no effect.
func bindPayloads(g *generator) schema {
	var all []any
	for _, p := range payloadTypes() {
		all = append(all, schema{
			"if":   schema{"properties": schema{"event_type": schema{"const": p.EventType()}}},
			"then": schema{"properties": schema{"payload": g.schemaOf(reflect.TypeOf(p))}},
		})
	}
	return schema{"allOf": all}
}

// fieldForm defines the long form of an input or output; contract also allows the short one.
func fieldForm(g *generator) schema {
	g.schemaOf(reflect.TypeFor[manifests.Field]())
	return nil
}

// adapterParts defines the long form of a part of a command line; contract also allows the short one, a word.
func adapterParts(g *generator) schema {
	argv, _ := adapter.Type().FieldByName("Argv")
	g.schemaOf(argv.Type.Elem())
	return nil
}

// runError defines the reason of a failed run; contract also allows null.
func runError(g *generator) schema {
	g.schemaOf(reflect.TypeFor[api.RunError]())
	return nil
}

// resultForms are the three forms of a result.
func resultForms(*generator) schema {
	form := func(ok bool, required ...string) schema {
		return schema{"properties": schema{"ok": schema{"const": ok}}, "required": required}
	}
	return schema{"anyOf": []any{form(true, "data"), form(true, "waiting"), form(false, "error")}}
}

// contractRules returns the rules of these types' readers that the Go types cannot express.
func contractRules() rules {
	enum := func(values ...any) schema { return schema{"enum": values} }
	pattern := func(p string) schema { return schema{"type": "string", "pattern": p} }
	object := schema{"type": "object"}
	line := func(most int) schema {
		return schema{"type": "string", "minLength": 1, "maxLength": most, "pattern": `^[^\r\n]*\S[^\r\n]*$`}
	}
	oid, digest := pattern(`^([0-9a-f]{40}|[0-9a-f]{64})?$`), pattern(`^[0-9a-f]{64}$`)
	number := schema{"type": "integer", "minimum": 1}
	id := pattern(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)
	inputTypes := schema{"type": "object", "additionalProperties": pattern(`^(array<)*(string|integer|boolean|map)>*$`)}
	fields := schema{"type": "array", "items": schema{"anyOf": []any{
		schema{"type": "string"}, schema{"$ref": "#/$defs/Field"},
	}}}
	kinds := schema{"type": "array", "minItems": 1, "items": enum(enumOf(append(expr.FailureKinds(), "ALL"))...)}
	return rules{
		types: map[reflect.Type]schema{
			reflect.TypeFor[time.Time]():       {"type": "string", "format": "date-time"},
			reflect.TypeFor[ir.Op]():           enum(listOps()...),
			reflect.TypeFor[expr.Cond]():       conditionSchema(),
			reflect.TypeFor[ir.Escalations]():  escalationsSchema(),
			reflect.TypeFor[templates.Lines](): schema{"anyOf": []any{schema{"type": "string"}, schema{"type": "array", "items": schema{"type": "string"}}}},
			reflect.TypeFor[board.Commands]():  schema{"anyOf": []any{schema{"type": "string"}, schema{"type": "array", "items": schema{"type": "string"}}}},
			reflect.TypeFor[manifests.Class](): enum(manifests.ClassRead, manifests.ClassIdempotent, manifests.ClassSprite, manifests.ClassWorld),
			reflect.TypeFor[lattice.RunStatus](): enum(lattice.Pending, lattice.Running, lattice.Succeeded, lattice.Failed, lattice.Canceled, lattice.Blocked,
				lattice.BlockedWaitingForUser, lattice.Waiting),
			reflect.TypeFor[lattice.WaitKind](): enum(lattice.WaitAction, lattice.WaitSkill, lattice.WaitHuman, lattice.WaitUnknown,
				lattice.WaitQuestion, lattice.WaitBlocked),
			reflect.TypeFor[loop.Status](): enum(loop.Continue, loop.Done, loop.NeedsInput, loop.Blocked),
			reflect.TypeFor[loop.Decision](): enum(loop.DecideDone, loop.DecideContinue, loop.DecideRefuse, loop.DecideAsk, loop.DecideBlocked, loop.DecideStuck,
				loop.DecideRepeated, loop.DecideCrashed, loop.DecideMaxIterations, loop.DecideMaxCost, loop.DecideMaxDuration),
			reflect.TypeFor[settings.Duration]():       pattern(`^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`),
			reflect.TypeFor[policy.Duration]():         pattern(`^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`),
			reflect.TypeFor[policy.Class]():            enum(enumOf(policy.Classes())...),
			reflect.TypeFor[policy.PathDecision]():     enum(enumOf(policy.PathDecisions())...),
			reflect.TypeFor[lattice.Verdict]():         enum(enumOf(policy.Decisions())...),
			reflect.TypeFor[settings.Size]():           pattern(`^[0-9]+([kKmMgGtT][iI]?)?[bB]?$`),
			reflect.TypeFor[settings.Level]():          enum(enumOf(settings.Levels())...),
			reflect.TypeFor[settings.Isolation]():      enum(enumOf(settings.Isolations())...),
			reflect.TypeFor[settings.Rule]():           enum(enumOf(settings.Rules())...),
			reflect.TypeFor[settings.Network]():        enum(enumOf(settings.Networks())...),
			reflect.TypeFor[settings.Provider]():       enum(enumOf(settings.Providers())...),
			reflect.TypeFor[settings.Structured]():     enum(enumOf(settings.StructuredModes())...),
			reflect.TypeFor[settings.SecretProvider](): enum(enumOf(settings.SecretProviders())...),
			reflect.TypeFor[settings.ChannelKind]():    enum(enumOf(settings.ChannelKinds())...),
			reflect.TypeFor[settings.NotifyLevel]():    enum(enumOf(settings.NotifyLevels())...),
			reflect.TypeFor[settings.NotifyEvent]():    enum(enumOf(settings.NotifyEvents())...),
		},
		fields: map[string]schema{
			"Event.protocol_version": {"const": protocol.Version},
			"Event.timestamp":        pattern(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$`),
			"Event.payload":          object,
			"Info.metadata":          object, "Artifact.metadata": object, "ActionRequest.parameters": object, "SuggestedAdjustment.details": object,
			"AlsoPush.base": oid, "AlsoPush.head": oid, "AlsoPush.sha256": digest,
			"PushBranch.sha256": digest, "PushBranch.title": {"type": "string", "maxLength": protocol.MaxTitle},
			"OpenPR.title": line(protocol.MaxTitle), "OpenPR.body": {"type": "string", "maxLength": protocol.MaxBody}, "OpenPR.base": {"type": "string", "maxLength": 200}, "OpenPR.head": line(200),
			"OpenPR.base_sha": oid, "OpenPR.head_sha": oid, "OpenPR.sha256": pattern(`^([0-9a-f]{64})?$`),
			"PostComment.number": number, "PostComment.body": {"type": "string", "maxLength": protocol.MaxBody, "pattern": `\S`},
			"LabelIssue.number": number, "LabelIssue.labels": {"type": "array", "minItems": 1, "maxItems": protocol.MaxLabels, "items": line(protocol.MaxLabel)},
			"OpenIssues.number": number, "OpenIssues.document": line(protocol.MaxTitle), "TaskIssue.title": line(protocol.MaxTitle), "TaskIssue.key": pattern(`^[a-z0-9]+(-[a-z0-9]+)*$`),
			"NotifyUser.title": line(protocol.MaxNotifyTitle), "NotifyUser.body": {"type": "string", "maxLength": protocol.MaxNotifyBody},
			"NotifyUser.level": enum("", protocol.LevelInfo, protocol.LevelWarning, protocol.LevelError), "NotifyUser.channel": pattern(`^([A-Za-z0-9][A-Za-z0-9_.-]{0,63})?$`),
			"FetchCredential.name": line(128), "FetchCredential.purpose": line(1024),
			"UseTool.agent": line(128), "UseTool.kind": line(32), "UseTool.name": {"type": "string", "maxLength": 128}, "UseTool.title": line(1024),
			"UseTool.arguments": {"type": "string", "maxLength": protocol.MaxArguments, "pattern": `\S`}, "UseTool.sha256": digest,
			"Waiting.checkpoint_id":          {"type": "string", "minLength": 1},
			"Waiting.expected_inputs":        inputTypes,
			"Completed.status":               enum(protocol.StatusSuccess, protocol.StatusFailure),
			"EnvironmentProposal.scope":      enum(protocol.ScopeRepoSpecific, protocol.ScopeGlobalCandidate),
			"EnvironmentProposal.confidence": {"type": "number", "minimum": 0, "maximum": 1},
			"SuggestedAdjustment.type": enum(protocol.AdjustRuntimeInstall, protocol.AdjustRuntimeVersion, protocol.AdjustDependencyManagerSwitch,
				protocol.AdjustAddPreinstallStep, protocol.AdjustSmokeCommand, protocol.AdjustAddSystemPackage, protocol.AdjustEnableNetworkAccess, protocol.AdjustEscalateToHuman),
			"Adapter.name":              pattern(`^[a-z0-9._-]+$`),
			"Adapter.argv":              {"type": "array", "items": schema{"anyOf": []any{schema{"type": "string"}, schema{"$ref": "#/$defs/Part"}}}},
			"Adapter.prompt":            enum("stdin", "file"),
			"Adapter.home":              enum("private", "inherit"),
			"Adapter.output":            enum("events", "document", "text"),
			"Adapter.structured":        enum("native", "text"),
			"Adapter.cumulative":        {"type": "array", "items": enum("usage", "cost")},
			"Adapter.linger_s":          {"type": "number", "minimum": 0},
			"ConfigFile.format":         enum("json", "toml"),
			"ConfigFile.content":        object,
			"Cause.is":                  enum("auth", "rate_limit", "unavailable", "no_session"),
			"Rule.is":                   enum("start", "text", "tool_call", "tool_result", "retry", "turn", "usage", "error", "end"),
			"Resume.inputs":             object,
			"SessionCall.input":         object,
			"SessionNote.session":       enum(protocol.SessionReady, protocol.SessionRefused, protocol.SessionKeepalive),
			"Skill.name":                pattern(`^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*$`),
			"Skill.inputs":              fields,
			"Field.type":                pattern(`^(array<)*(string|integer|number|boolean|map|array|any)>*$`),
			"Skill.outputs":             fields,
			"Document.execir_version":   {"const": ir.Version},
			"Document.id":               id,
			"Document.input_schema":     object,
			"Workflow.workflow_version": {"const": compile.Version},
			"Workflow.id":               id,
			"Workflow.input_schema":     object,
			"Step.id":                   id,
			"Plan.planir_version":       {"const": compile.PlanVersion},
			"Plan.id":                   id,
			"Plan.goal":                 {"type": "string", "minLength": 1},
			"Plan.input_schema":         object,
			"PlanStep.id":               pattern(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`),
			"PlanStep.type":             pattern(`^[A-Z][A-Z0-9_]{0,63}$`),
			"Rule.step_version":         {"const": compile.RuleVersion},
			"Rule.type":                 pattern(`^[A-Z][A-Z0-9_]{0,63}$`),
			"Rule.nodes":                {"type": "array", "minItems": 1, "items": object},
			"Rule.edges":                {"type": "array", "items": object},
			"Step.in":                   object,
			"Step.type":                 pattern(`^(tool|[a-z][a-z0-9_]*(\.[a-z0-9_]+)*|[A-Z][A-Z0-9_]{0,63})$`),
			"Finding.severity":          enum(finding.SeverityError, finding.SeverityWarning),
			"Identity.name":             pattern(`^[^ /\\\n]+$`),
			"Identity.actor":            pattern(`^(agent|human|team|worker):[A-Za-z0-9._@+-]{1,100}$`),
			"Trigger.on_event":          enum(enumOf(worker.TriggerEvents)...),
			"Trigger.stale_hours":       {"type": "integer", "minimum": 0},
			"Trigger.cooldown_minutes":  {"type": "integer", "minimum": 0},
			"Execution.place":           enum(worker.PlaceSprite, worker.PlaceWorktree),
			"Execution.engine":          enum(enumOf(worker.Engines)...),
			"Execution.worktree":        {"const": true},
			"Execution.timeout_minutes": {"type": "integer", "minimum": 1, "maximum": 1440},
			"RunLine.error":             {"anyOf": []any{schema{"$ref": "#/$defs/RunError"}, schema{"type": "null"}}},
			"Wait.expected_inputs":      inputTypes,
			"Node.id":                   id,
			"Node.as":                   {"const": "$item"},
			"Node.strategy":             enum(ir.MergeShallow, ir.MergeDeep, ir.MergeConcat, ir.MergeByKey, ir.MergeBest, ir.MergePatch),
			"Node.on_conflict":          enum("last", "first", "error"),
			"Node.on_error":             enum("fail", "collect"),
			"Node.expected_inputs":      inputTypes,
			"Node.on_timeout":           enum("fail", "default"),
			"Node.join":                 enum(ir.JoinAll, ir.JoinAny, ir.JoinSettled),
			"Node.cache":                enum("run", "none"),
			"Node.on_empty":             enum("error", "null"),
			"Node.on_single":            enum("auto", "ask"),
			"Node.kind":                 enum(enumOf(expr.FailureKinds())...),
			"Branch.name":               id,
			"Validator.type":            enum("json_schema", "invariant", "choice_in_candidates", "label_in_set", "no_extra_text", "max_chars"),
			"RetryPolicy.strategy":      enum("PATCH_JSON_FROM_ERROR", "REGENERATE", "NONE"),
			"Escalation.on":             kinds,
			"Escalation.carry":          enum("packet", "fresh"),
			"Subgraph.digest":           pattern(`^sha256:[0-9a-f]{64}$`),
			"Subgraph.document":         object,
			"Retry.on":                  kinds,
			"Catch.on":                  kinds,
			"Retry.jitter":              enum("none", "full"),
		},
		optional: map[string]bool{
			"ActionRequest.blocking": true, "OpenPR.body": true, "OpenPR.base": true, "NotifyUser.body": true, "NotifyUser.level": true,
			"Document.edges":    true,
			"Skill.permissions": true, "Skill.produces_events": true, "Field.required": true,
		},
		closed: map[string]bool{
			packageOf[finding.Finding](): true,
			packageOf[ir.Document]():     true, packageOf[compile.Workflow](): true, packageOf[settings.Settings](): true, packageOf[policy.Document](): true, packageOf[worker.Definition](): true, packageOf[fleet.Document](): true, adapter.Type().PkgPath(): true,
		},
		open: map[string]bool{packageOf[ir.Document](): true, packageOf[finding.Finding](): true, packageOf[compile.Workflow](): true},
	}
}

// conditionSchema is a condition of an edge or a case, one level of it: package ir checks the nested ones.
func conditionSchema() schema {
	properties := schema{"op": schema{"enum": enumOf(expr.CondOps())}, "left": schema{}, "right": schema{}, "items": schema{}}
	for _, name := range []string{"is", "ref", "key", "pattern", "as", "type"} {
		properties[name] = schema{"type": "string"}
	}
	properties["args"] = schema{"type": "array", "minItems": 1, "items": schema{"type": "object"}}
	properties["where"] = schema{"type": "object"}
	return schema{
		"type": "object", "properties": properties, "required": []string{"op"},
		"additionalProperties": false, "patternProperties": schema{"^(meta$|x-)": schema{}},
		"description": `A condition, such as {"op":"eq","left":"$vars.test.status","right":"passed"}. Edges are tried in order; "otherwise" is true when none before it was.`,
	}
}

// escalationsSchema are one escalation, or a list of them.
func escalationsSchema() schema {
	one := schema{"$ref": "#/$defs/Escalation"}
	return schema{"anyOf": []any{one, schema{"type": "array", "items": one}}}
}

// escalationSchema defines an element of escalations.
func escalationSchema(g *generator) schema {
	g.schemaOf(reflect.TypeFor[ir.Escalation]())
	return nil
}

// listOps are all ops of the format, those too that this lattice does not run.
func listOps() []any {
	var out []any
	for _, op := range ir.Ops() {
		out = append(out, op)
	}
	return out
}

func packageOf[T any]() string { return reflect.TypeFor[T]().PkgPath() }

// enumOf are the members of a list for enum.
func enumOf(list []string) []any {
	out := make([]any, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}
