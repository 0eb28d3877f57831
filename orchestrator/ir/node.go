package ir

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// Values of Node.OnLoss.
const (
	LossRepeats = "repeat"
	LossFails   = "fail"
)

// Node is one node; which fields belong to which op is checked by Validate.
type Node struct {
	ID         string                     `json:"id"`
	Op         Op                         `json:"op"`
	Inputs     map[string]json.RawMessage `json:"inputs,omitempty"`     // PACK, HUMAN, SUBGRAPH, LLM_…: port → value expression
	Outputs    map[string]string          `json:"outputs,omitempty"`    // port → "$vars.x" | "$tmp.x"
	Projection map[string][]string        `json:"projection,omitempty"` // PACK, HUMAN, LLM_…: port → picked members, [] = whole
	Skip       *expr.Cond                 `json:"when_skip,omitempty"`  // true: the node does nothing and writes nothing, and is left by its edges
	TimeoutS   float64                    `json:"timeout_s,omitempty"`  // of one attempt; of MAP, PARALLEL, LOOP and SUBGRAPH with all that runs inside, people included
	Retry      []Retry                    `json:"retry,omitempty"`
	Catch      []Catch                    `json:"catch,omitempty"`
	Meta       json.RawMessage            `json:"meta,omitempty"`

	// TOOL_CALL
	Tool           string          `json:"tool,omitempty"`
	Args           json.RawMessage `json:"args,omitempty"`        // value expression; members that become null are not sent
	SideEffect     manifests.Class `json:"side_effect,omitempty"` // may only be as strict as the manifest's or stricter
	IdempotencyKey json.RawMessage `json:"idempotency_key,omitempty"`
	Sprite         string          `json:"sprite,omitempty"`      // TOOL_CALL, MAP, PARALLEL: default "main"; "fork": each attempt, item or branch has a copy
	KeepSprite     bool            `json:"keep_sprite,omitempty"` // with "fork": the copies stay as long as the run's sprite does
	Compensate     *Compensate     `json:"compensate,omitempty"`
	// Restore names a TOOL_CALL of the same graph. Before the call the files of the sprite go back to those before the last
	// call of that node.
	Restore string `json:"restore,omitempty"`
	// OnLoss says what a call does whose process or sprite dies while lattice looks on: "repeat" (default) makes it again, "fail" fails
	// the attempt, with tool_unavailable.
	OnLoss string `json:"on_loss,omitempty"`

	// SWITCH
	Cases   []Case `json:"cases,omitempty"`
	Default string `json:"default,omitempty"` // name of the case that is chosen when none is true

	// HUMAN. The timeout is TimeoutS; OnTimeout is "fail" (default, kind human_timeout) or "default".
	Prompt       json.RawMessage   `json:"prompt,omitempty"` // value expression
	Choices      []string          `json:"choices,omitempty"`
	Expected     map[string]string `json:"expected_inputs,omitempty"` // see ExpectedInputs for the default
	AnswerSchema json.RawMessage   `json:"answer_schema,omitempty"`   // JSON Schema of the answer, or the name of one in schemas
	Answer       json.RawMessage   `json:"default_answer,omitempty"`
	OnTimeout    string            `json:"on_timeout,omitempty"`
	// Approves names TOOL_CALL nodes of the same graph. The question shows the inputs of their calls of class world, and an
	// approval allows these calls as they were shown.
	Approves []string `json:"approves,omitempty"`

	// MERGE; see Merge.
	From       []json.RawMessage `json:"from,omitempty"` // value expressions, in the order of merging
	Strategy   string            `json:"strategy,omitempty"`
	Key        string            `json:"key,omitempty"`         // by_key: the member that tells elements apart
	By         []string          `json:"by,omitempty"`          // best: members in the order of their weight, "-" in front of one of which more is better
	OnConflict string            `json:"on_conflict,omitempty"` // last (default) | first | error

	// MAP runs Body once for every element of Items, which the body knows as $item and $index. Each iteration has a $tmp
	// of its own, empty at first, and cannot write $vars. Port "result" is the list of the iterations' results in the
	// order of the items, with null where one failed; port "failures" lists {index,kind,message,node,attempt,data}.
	Items    json.RawMessage `json:"items,omitempty"`     // value expression, an array
	As       string          `json:"as,omitempty"`        // "$item", if anything
	Body     *Body           `json:"body,omitempty"`      // MAP, LOOP
	MaxItems int             `json:"max_items,omitempty"` // required; more are limit_exceeded before the first iteration
	// Concurrency is how many iterations of a MAP, or branches of a PARALLEL, run at once, at most limits.max_parallel; the
	// default is 1 and all branches. A body that writes or asks people runs one at a time whatever it says (DESIGN 23);
	// Parse warns of that.
	Concurrency int    `json:"concurrency,omitempty"`
	OnError     string `json:"on_error,omitempty"` // fail (default): the first failed item fails the MAP; collect
	// ToleratedFailures is how many items may fail under collect before the MAP does; nil is any number.
	ToleratedFailures *int            `json:"tolerated_failures,omitempty"`
	Result            json.RawMessage `json:"result,omitempty"` // MAP, LOOP: value expression; default: the output of the iteration's last node

	// PARALLEL runs Branches concurrently, under the rules for bodies of a MAP. Join says when it ends: "all" (the
	// default) when all have succeeded, failing with the first branch that fails; "any" when one has succeeded;
	// "settled" when all have ended.
	Branches []Branch `json:"branches,omitempty"`
	Join     string   `json:"join,omitempty"`

	// LOOP runs Body again and again: while While holds, which is asked before each iteration, or until Until holds, which
	// is asked after each. $index counts from 0; $item is Init at first and then the result of the iteration before. Each
	// iteration has a $tmp of its own; unlike that of a MAP, a LOOP's body may write $vars. More than MaxIterations are
	// limit_exceeded. Ports: "result", the last iteration's, and "iterations".
	Until         *expr.Cond      `json:"until,omitempty"`
	While         *expr.Cond      `json:"while,omitempty"`
	Init          json.RawMessage `json:"init,omitempty"` // value expression, default null
	MaxIterations int             `json:"max_iterations,omitempty"`

	// SUBGRAPH runs the document Ref, "name@sha256:…" of subgraphs, with Inputs as its $in and $vars of its own. Port
	// "result" is its output.
	Ref string `json:"ref,omitempty"`

	// SET writes values: "$vars.x" or "$tmp.x" → value expression. All are evaluated before the first is written.
	Set map[string]json.RawMessage `json:"set,omitempty"`

	// WAIT takes Seconds, or until the RFC 3339 instant that At evaluates to.
	Seconds json.RawMessage `json:"seconds,omitempty"` // value expression, a number
	At      json.RawMessage `json:"at,omitempty"`      // value expression, a text

	// FAIL fails with Kind, default invariant_failure.
	Kind    string          `json:"kind,omitempty"`
	Message json.RawMessage `json:"message,omitempty"` // value expression

	// END ends the run, or inside a body the iteration, with Output; the default is the output of the document or body.
	Output json.RawMessage `json:"output,omitempty"` // value expression

	// EMIT records an INFO event: a value expression that makes {kind, message, metadata?}.
	Event json.RawMessage `json:"event,omitempty"`

	// LLM_…; see llm.go.
	ModelClass      string          `json:"model_class,omitempty"`
	PromptTemplate  string          `json:"prompt_template,omitempty"`
	OutputSchema    string          `json:"output_schema,omitempty"` // name in schemas or in the registry
	Validators      []Validator     `json:"validators,omitempty"`
	RetryPolicy     *RetryPolicy    `json:"retry_policy,omitempty"`
	Escalation      Escalations     `json:"escalation,omitempty"`
	MaxOutputTokens int             `json:"max_output_tokens,omitempty"`
	Temperature     float64         `json:"temperature,omitempty"`
	Seed            *int            `json:"seed,omitempty"`
	Cache           string          `json:"cache,omitempty"`         // LLM_… and TOOL_CALL: run | none (default)
	Labels          json.RawMessage `json:"labels,omitempty"`        // LLM_CLASSIFY: value expression, an array of texts
	AllowUnknown    bool            `json:"allow_unknown,omitempty"` // LLM_CLASSIFY
	Candidates      json.RawMessage `json:"candidates,omitempty"`    // LLM_CHOOSE: value expression, an array of objects
	IDField         string          `json:"id_field,omitempty"`      // LLM_CHOOSE: default id
	OnEmpty         string          `json:"on_empty,omitempty"`      // LLM_CHOOSE: error (default) | null
	OnSingle        string          `json:"on_single,omitempty"`     // LLM_CHOOSE: auto (default) | ask
	Resolve         bool            `json:"resolve,omitempty"`       // LLM_CHOOSE: the whole candidate is port "item"
}

// Body is a graph inside of a node. Ids are unique in the whole document; edges and catches stay inside.
type Body struct {
	EntryNode string `json:"entry_node"`
	Nodes     []Node `json:"nodes"`
	Edges     []Edge `json:"edges,omitempty"`
}

// Branch is one branch of a PARALLEL, and its name the port of its result.
type Branch struct {
	Name   string          `json:"name"`
	Body   *Body           `json:"body"`
	Result json.RawMessage `json:"result,omitempty"` // value expression; default: the output of the branch's last node
}

// CacheRun is the value of Node.Cache that lets a node reuse the answer to an equal request made earlier in the run. A
// TOOL_CALL may use it if it is of class read or idempotent; its cached result is valid until something writes in its
// sprite.
const CacheRun = "run"

// Values of Node.Join.
const (
	JoinAll     = "all"
	JoinAny     = "any"
	JoinSettled = "settled"
)

// Subgraph is a document that SUBGRAPH nodes run. It has its own ids, $vars and $tmp.
type Subgraph struct {
	Digest   string          `json:"digest"`   // "sha256:…" over the RFC 8785 form of the document
	Document json.RawMessage `json:"document"` // an ExecIR document without subgraphs and limits of its own
}

// Compensate is the call that undoes the effect of a TOOL_CALL if the run fails later.
type Compensate struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"` // value expression, evaluated when the node has completed; $out is its output
}

// Values of Node.Strategy.
const (
	MergeShallow = "shallow"
	MergeDeep    = "deep"
	MergeConcat  = "concat"
	MergeByKey   = "by_key"
	MergePatch   = "merge_patch"
	MergeBest    = "best"
)

// Case is one case of a SWITCH.
type Case struct {
	Name string     `json:"name"`
	When *expr.Cond `json:"when"`
}

// Retry is one retry rule; MaxAttempts counts all attempts, the first included.
type Retry struct {
	On          []string `json:"on"`
	MaxAttempts int      `json:"max_attempts,omitempty"` // default 4
	IntervalS   float64  `json:"interval_s,omitempty"`   // default 1
	BackoffRate float64  `json:"backoff_rate,omitempty"` // default 2
	MaxDelayS   float64  `json:"max_delay_s,omitempty"`
	Jitter      string   `json:"jitter,omitempty"` // none (default) | full, derived from the idempotency key
}

// Catch sends a failure to a node; Bind receives {kind,message,node,attempt,data}.
type Catch struct {
	On   []string `json:"on"`
	To   string   `json:"to"`
	Bind string   `json:"bind,omitempty"`
}

var IDPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`) })

// NodeFields lists the members of a node that belong to some ops only.
var NodeFields = map[string][]Op{
	"inputs":     {OpPack, OpHuman, OpSubgraph, OpLLMExtract, OpLLMClassify, OpLLMChoose, OpLLMWrite},
	"projection": {OpPack, OpHuman, OpLLMExtract, OpLLMClassify, OpLLMChoose, OpLLMWrite},
	"timeout_s":  {OpToolCall, OpHuman, OpMap, OpParallel, OpLoop, OpSubgraph, OpLLMExtract, OpLLMClassify, OpLLMChoose, OpLLMWrite}, "retry": {OpToolCall, OpMap, OpParallel, OpLoop, OpSubgraph},
	"tool": {OpToolCall}, "args": {OpToolCall}, "side_effect": {OpToolCall}, "idempotency_key": {OpToolCall}, "sprite": {OpToolCall, OpMap, OpParallel}, "keep_sprite": {OpToolCall, OpMap, OpParallel},
	"cases": {OpSwitch}, "default": {OpSwitch},
	"prompt": {OpHuman}, "choices": {OpHuman}, "expected_inputs": {OpHuman}, "default_answer": {OpHuman}, "on_timeout": {OpHuman}, "approves": {OpHuman},
	"from": {OpMerge}, "strategy": {OpMerge}, "key": {OpMerge}, "by": {OpMerge}, "on_conflict": {OpMerge},
	"items": {OpMap}, "as": {OpMap}, "body": {OpMap, OpLoop}, "max_items": {OpMap}, "concurrency": {OpMap, OpParallel}, "on_error": {OpMap},
	"tolerated_failures": {OpMap}, "result": {OpMap, OpLoop},
	"branches": {OpParallel}, "join": {OpParallel},
	"until": {OpLoop}, "while": {OpLoop}, "init": {OpLoop}, "max_iterations": {OpLoop},
	"ref": {OpSubgraph}, "set": {OpSet}, "seconds": {OpWait}, "at": {OpWait}, "kind": {OpFail}, "message": {OpFail},
	"output": {OpEnd}, "event": {OpEmit}, "compensate": {OpToolCall}, "restore": {OpToolCall}, "on_loss": {OpToolCall}, "answer_schema": {OpHuman},
	"model_class": llmOps, "prompt_template": llmOps, "output_schema": llmOps, "validators": llmOps, "retry_policy": llmOps,
	"escalation": llmOps, "max_output_tokens": llmOps, "temperature": llmOps, "seed": llmOps, "cache": {OpToolCall, OpLLMExtract, OpLLMClassify, OpLLMChoose, OpLLMWrite},
	"labels": {OpLLMClassify}, "allow_unknown": {OpLLMClassify}, "candidates": {OpLLMChoose}, "id_field": {OpLLMChoose},
	"on_empty": {OpLLMChoose}, "on_single": {OpLLMChoose}, "resolve": {OpLLMChoose},
}

var llmOps = []Op{OpLLMExtract, OpLLMClassify, OpLLMChoose, OpLLMWrite}

// PresentMembers names the op-bound members that a node has.
func (n *Node) PresentMembers() []string {
	var has []string
	v := reflect.ValueOf(n).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if _, bound := NodeFields[name]; bound && !v.Field(i).IsZero() {
			has = append(has, name)
		}
	}
	return has
}
