package board

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/spritekit/exact"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Config is .lattice/config.json: the rules of a board.
type Config struct {
	SchemaVersion int      `json:"schema_version,omitempty"`
	ProjectCode   string   `json:"project_code,omitempty"` // prefix of short ids, such as LAT
	DefaultStatus string   `json:"default_status,omitempty"`
	TaskTypes     []string `json:"task_types,omitempty"`
	Workflow      Workflow `json:"workflow"`
	Hooks         Hooks    `json:"hooks,omitzero"`
	// Workers names workers whose trigger counts only if it is asked for (opt_in).
	Workers []string `json:"workers,omitempty"`
	// WorkerPolicies chooses between two workers for tasks that are in a status.
	WorkerPolicies map[string]WorkerPolicy `json:"worker_policies,omitempty"`
}

// WorkerPolicy names the worker for a status, and another one for tasks that need more (seed workers-design, "Policy-Based
// Trigger Escalation").
type WorkerPolicy struct {
	Default      string     `json:"default"`
	EscalateTo   string     `json:"escalate_to,omitempty"`
	EscalateWhen Escalation `json:"escalate_when,omitzero"`
}

// Escalation is a list of conditions. One that holds suffices.
type Escalation struct {
	Labels      []string `json:"labels,omitempty"`
	Type        []string `json:"type,omitempty"`
	DiffLinesGT int      `json:"diff_lines_gt,omitempty"` // added and removed lines
}

// Choose returns the name of the worker for a task whose change has a number of lines.
func (p WorkerPolicy) Choose(t *Task, diffLines int) string {
	when := p.EscalateWhen
	if p.EscalateTo != "" && (slices.ContainsFunc(t.Labels, func(label string) bool { return slices.Contains(when.Labels, label) }) ||
		slices.Contains(when.Type, t.Type) || when.DiffLinesGT > 0 && diffLines > when.DiffLinesGT) {
		return p.EscalateTo
	}
	return p.Default
}

// Names reports whether the policy is about a worker.
func (p WorkerPolicy) Names(worker string) bool { return worker == p.Default || worker == p.EscalateTo }

// Workflow says which statuses there are, and which moves.
type Workflow struct {
	Statuses []string `json:"statuses"` // in the order of work
	// Transitions lists for a status those that may follow it. A status that is not listed may be followed by any.
	Transitions map[string][]string `json:"transitions,omitempty"`
	// CompletionPolicies are the conditions for taking a status.
	CompletionPolicies map[string]CompletionPolicy `json:"completion_policies,omitempty"`
	// ReviewCycleLimit bounds the moves from review back to work, 0 for no bound.
	ReviewCycleLimit int `json:"review_cycle_limit,omitempty"`
}

// CompletionPolicy is a condition on tasks that take a status.
type CompletionPolicy struct {
	RequireRoles    []string `json:"require_roles,omitempty"` // of artifacts
	RequireAssigned bool     `json:"require_assigned,omitempty"`
}

// Hooks are shell commands that run after events; see [Board.RunHooks].
type Hooks struct {
	PostEvent   string              `json:"post_event,omitempty"`  // after each event
	On          map[string]string   `json:"on,omitempty"`          // by type of event
	Transitions map[string]Commands `json:"transitions,omitempty"` // by move, such as "in_progress -> review" or "* -> done"
}

// Commands is one command or a list of them.
type Commands []string

func (c *Commands) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*c = Commands{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(c))
}

// Any task may be moved to these. Transitions, completion policies and the number of review cycles do not matter.
const (
	NeedsHuman = "needs_human"
	Cancelled  = "cancelled"
)

// DefaultConfig returns the rules of a new board (seed workers-design, "Relationship to Existing Systems").
func DefaultConfig(code string) Config {
	return Config{
		SchemaVersion: 1,
		ProjectCode:   code,
		DefaultStatus: "backlog",
		TaskTypes:     []string{"task", "bug", "feature", "epic", "spike", "chore"},
		Workflow: Workflow{
			Statuses:           []string{"backlog", "in_planning", "in_progress", "review", "done", NeedsHuman, Cancelled},
			CompletionPolicies: map[string]CompletionPolicy{"done": {RequireRoles: []string{"review"}}},
			ReviewCycleLimit:   3,
		},
	}
}

// parseConfig reads and checks config.json.
func parseConfig(text []byte) (Config, error) {
	var c Config
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, badConfig("line %d: %s", findLine(text, err), strings.TrimPrefix(err.Error(), "json: "))
	}
	if rest := bytes.TrimLeft(text[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return c, badConfig("line %d: text after the end", 1+bytes.Count(text[:len(text)-len(rest)], []byte("\n")))
	}
	if twice := exact.Duplicates(text); len(twice) > 0 {
		return c, badConfig("%s is given twice", twice[0])
	}
	w := c.Workflow
	if len(w.Statuses) == 0 {
		return c, badConfig("workflow.statuses is empty")
	}
	c.DefaultStatus = cmp.Or(c.DefaultStatus, w.Statuses[0])
	named := []string{c.DefaultStatus}
	for from, to := range w.Transitions {
		named = append(append(named, from), to...)
	}
	for status := range w.CompletionPolicies {
		named = append(named, status)
	}
	for status, p := range c.WorkerPolicies {
		named = append(named, status)
		if p.Default == "" {
			return c, badConfig("worker_policies.%s.default is missing", status)
		}
		if when := p.EscalateWhen; (p.EscalateTo == "") != (len(when.Labels) == 0 && len(when.Type) == 0 && when.DiffLinesGT <= 0) {
			return c, badConfig("worker_policies.%s has escalate_to or escalate_when, but not both", status)
		}
		for _, t := range p.EscalateWhen.Type {
			if err := c.checkType(t); err != nil {
				return c, badConfig("worker_policies.%s.escalate_when.type is %q, not one of task_types", status, t)
			}
		}
	}
	slices.Sort(named)
	for _, status := range named {
		if !slices.Contains(w.Statuses, status) {
			return c, badConfig("%q is used and not one of workflow.statuses", status)
		}
	}
	for _, move := range slices.Sorted(maps.Keys(c.Hooks.Transitions)) {
		from, to, ok := strings.Cut(move, " -> ")
		if !ok || from != "*" && !slices.Contains(w.Statuses, from) || to != "*" && !slices.Contains(w.Statuses, to) {
			return c, badConfig("the hook %q is not a move such as \"* -> review\"", move)
		}
	}
	return c, nil
}

// findLine returns the line of a text on which its decoder found an error.
func findLine(text []byte, err error) int {
	at := len(text)
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = int(e.Offset)
	} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		at = int(e.Offset)
	} else if _, name, ok := strings.Cut(err.Error(), "unknown field "); ok { // encoding/json does not say where
		at = bytes.Index(text, []byte(name))
	}
	return 1 + bytes.Count(text[:min(max(at, 0), len(text))], []byte("\n"))
}

func badConfig(format string, args ...any) error {
	return fault.BadInput("board_config", "read .lattice/config.json: "+format, args...).WithHint("lattice task init --help")
}

// CheckMove returns an error unless the task may take the status now.
func (c Config) CheckMove(t *Task, to string) error {
	w := c.Workflow
	if !slices.Contains(w.Statuses, to) {
		return fault.BadInput("status_unknown", "the board has no status %q", to).WithHint("one of %s", strings.Join(w.Statuses, ", "))
	}
	if to == NeedsHuman || to == Cancelled {
		return nil
	}
	if next, ok := w.Transitions[t.Status]; ok && !slices.Contains(next, to) {
		return fault.Denied("move_not_allowed", "a task in %s cannot be moved to %s", t.Status, to).WithHint("one of %s", strings.Join(append(slices.Clone(next), NeedsHuman, Cancelled), ", "))
	}
	p := w.CompletionPolicies[to]
	var missing []string
	for _, role := range p.RequireRoles {
		if !slices.ContainsFunc(t.Artifacts, func(a Artifact) bool { return a.Role == role }) {
			missing = append(missing, role)
		}
	}
	if len(missing) > 0 {
		return fault.Denied("move_needs_artifact", "%s needs an artifact of the role %s before it is moved to %s", t.Name(), strings.Join(missing, " and "), to).
			WithHint("lattice task attach %s FILE --role %s", t.Name(), missing[0])
	}
	if p.RequireAssigned && t.AssignedTo == "" {
		return fault.Denied("move_needs_assignee", "%s must be assigned before it is moved to %s", t.Name(), to).WithHint("lattice task assign %s human:NAME", t.Name())
	}
	if back := slices.Index(w.Statuses, to) < slices.Index(w.Statuses, t.Status); back && t.Status == "review" && w.ReviewCycleLimit > 0 && t.ReviewCycles >= w.ReviewCycleLimit {
		return fault.Denied("review_cycles", "%s went back from review %d times, which is the limit", t.Name(), t.ReviewCycles).
			WithHint("lattice task move %s %s; the limit is workflow.review_cycle_limit in .lattice/config.json", t.Name(), NeedsHuman)
	}
	return nil
}

// Name is how people call the task: its short id, or its id.
func (t *Task) Name() string { return cmp.Or(t.ShortID, t.ID) }

// ChooseNext returns the task that the actor should work on: one that is assigned to the actor and in progress, else the
// most urgent and then oldest one of the statuses that is not assigned to another actor. It returns nil if none is left.
func (c Config) ChooseNext(tasks []*Task, actor string, statuses []string) *Task {
	var best *Task
	rank := func(t *Task) []int {
		resumed := 1
		if t.AssignedTo == actor && t.Status == "in_progress" {
			resumed = 0
		}
		priority := slices.Index(Priorities, t.Priority)
		if priority < 0 { // not set, or not a priority of lattice
			priority = slices.Index(Priorities, defaultPriority)
		}
		return []int{resumed, priority}
	}
	for _, t := range tasks {
		mine := t.AssignedTo == actor && t.Status == "in_progress"
		if !mine && (t.AssignedTo != "" && t.AssignedTo != actor || !slices.Contains(statuses, t.Status)) {
			continue
		}
		if best == nil || cmp.Or(slices.Compare(rank(t), rank(best)), compareTimes(t.CreatedAt, best.CreatedAt), cmp.Compare(t.ID, best.ID)) < 0 {
			best = t
		}
	}
	return best
}

// compareTimes compares instants of RFC 3339.
func compareTimes(a, b string) int {
	x, _ := time.Parse(time.RFC3339, a)
	y, _ := time.Parse(time.RFC3339, b)
	return x.Compare(y)
}
