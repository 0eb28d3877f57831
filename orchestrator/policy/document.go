package policy

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/tomlkey"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Document is the content of a policy file.
type Document struct {
	// Schema may name the JSON schema of policy files, for editors.
	Schema string `toml:"$schema" json:"$schema,omitempty"`
	// Actions are rules about the actions that sprites ask for, by name.
	Actions map[string]Action `toml:"actions" json:"actions,omitempty"`
	// Intents are rules about intents, by kind.
	Intents map[string]Intent `toml:"intents" json:"intents,omitempty"`
	World   World             `toml:"world" json:"world,omitzero"`
	// Paths are rules about the files that a push changes. The first rule that matches a file decides.
	Paths []Path `toml:"paths" json:"paths,omitempty"`
	// Budgets limit the money, tokens and time of questions to models and calls of agents.
	Budgets Budgets `toml:"budgets" json:"budgets,omitzero"`
	// Rate limits how often one person or token may ask.
	Rate Rate `toml:"rate" json:"rate,omitzero"`
	// Bots says which callers are programs.
	Bots Bots `toml:"bots" json:"bots,omitzero"`
	// Profiles are rules for some repositories, by a name of your choice. Only the policy of a server has profiles.
	Profiles map[string]Profile `toml:"profiles" json:"profiles,omitempty"`
}

// Profile holds rules for some repositories.
type Profile struct {
	// Repositories are patterns of names such as github.com/acme/*, or absolute paths; one that ends in / names all below it.
	Repositories []string          `toml:"repositories" json:"repositories"`
	Actions      map[string]Action `toml:"actions" json:"actions,omitempty"`
	Intents      map[string]Intent `toml:"intents" json:"intents,omitempty"`
	World        World             `toml:"world" json:"world,omitzero"`
	Paths        []Path            `toml:"paths" json:"paths,omitempty"`
	Budgets      Budgets           `toml:"budgets" json:"budgets,omitzero"`
}

// Action is a rule about one action.
type Action struct {
	// Class can raise the class of the action, never lower it.
	Class Class `toml:"class" json:"class,omitempty"`
	// Decision is allow, ask or deny; by default safe actions are allowed and others ask.
	Decision lattice.Verdict `toml:"decision" json:"decision,omitempty"`
	// Max is the number of these actions that one run may ask for.
	Max int `toml:"max" json:"max,omitempty"`
	// Allowed are patterns by parameter; each value of the parameter must match one of them. Those of repo are names such as
	// github.com/acme/*; without them only the repository of the run is allowed.
	Allowed map[string][]string `toml:"allowed" json:"allowed,omitempty"`
	// Staged shows the effect and performs nothing.
	Staged bool `toml:"staged" json:"staged,omitempty"`
	// Notes has a push export the signed statement about its commit, if the run verified it, as a git note in refs/notes/lattice.
	Notes   bool    `toml:"notes" json:"notes,omitempty"`
	Approve Approve `toml:"approve" json:"approve,omitzero"`
}

// Intent is a rule about one kind of intent.
type Intent struct {
	// Class can raise the class of the kind, never lower it.
	Class Class `toml:"class" json:"class,omitempty"`
	// Decision is allow, ask or deny; by default safe kinds are allowed and others ask.
	Decision lattice.Verdict `toml:"decision" json:"decision,omitempty"`
	Approve  Approve         `toml:"approve" json:"approve,omitzero"`
	// Older is cancel if a new intent cancels older ones of the kind about the same subject and repository, and keep if not.
	Older Older `toml:"older" json:"older,omitempty"`
}

func (i Intent) asAction() Action {
	return Action{Class: i.Class, Decision: i.Decision, Approve: i.Approve}
}

// Approve says who may approve, and for how long that holds.
type Approve struct {
	// By are the names or the ids (uid:1000) of the users who may approve; by default all.
	By []string `toml:"by" json:"by,omitempty"`
	// NotRequester refuses the approval of the user who started the run or created the intent.
	NotRequester bool `toml:"not_requester" json:"not_requester,omitempty"`
	// People is the number of users who must approve; by default 1.
	People int `toml:"people" json:"people,omitempty"`
	// Expires is how long an approval holds, such as 72h.
	Expires Duration `toml:"expires" json:"expires,omitempty"`
}

// unionWith returns an Approve that satisfies both.
func (a Approve) unionWith(b Approve) Approve {
	switch {
	case len(a.By) == 0:
		a.By = b.By
	case len(b.By) > 0:
		both := slices.DeleteFunc(slices.Clone(a.By), func(who string) bool { return !slices.Contains(b.By, who) })
		if a.By = both; len(both) == 0 {
			a.By = []string{""} // no user has this name
		}
	}
	a.NotRequester = a.NotRequester || b.NotRequester
	a.People = max(a.People, b.People)
	if a.Expires == 0 || b.Expires > 0 && b.Expires < a.Expires {
		a.Expires = b.Expires
	}
	return a
}

// World holds rules about skills of class world.
type World struct {
	// Allow names the skills that runs call without asking.
	Allow []string `toml:"allow" json:"allow,omitempty"`
	// Deny names the skills that runs never call.
	Deny []string `toml:"deny" json:"deny,omitempty"`
}

// Path is a rule about files.
type Path struct {
	// Name is shown when the rule decides.
	Name string `toml:"name" json:"name"`
	// Match are patterns, without regard to case: *.pem matches in every folder, /docs/*.md from the root, migrations/ a folder
	// anywhere, /.github/ one at the root, / all files; ** stands for any number of folders.
	Match []string `toml:"match" json:"match"`
	// Decision is allow, warn, ask or deny.
	Decision PathDecision `toml:"decision" json:"decision"`
	// Why completes the sentence "the change …" for people.
	Why string `toml:"why" json:"why,omitempty"`
}

// PathDecision is the decision of a rule about files.
type PathDecision string

// The values of PathDecision in ascending order of strictness.
const (
	PathAllow PathDecision = "allow"
	PathWarn  PathDecision = "warn"
	PathAsk   PathDecision = "ask"
	PathDeny  PathDecision = "deny"
)

// PathDecisions returns the values of PathDecision.
func PathDecisions() []string {
	return []string{string(PathAllow), string(PathWarn), string(PathAsk), string(PathDeny)}
}

// Duration is a length of time, written like "90s" or "72h".
type Duration time.Duration

// UnmarshalText reads a positive duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is not a length of time such as 30m or 72h", text)
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes the duration as UnmarshalText reads it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// MaxSize is the largest size of a policy file in bytes.
const MaxSize = 256 << 10

// Finding is a problem of a policy file.
type Finding struct {
	Line    int    `json:"line,omitempty"` // from 1; 0 when it is not known
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

// Text returns the finding on one line.
func (f Finding) Text() string {
	s := f.Message
	if f.Key != "" {
		s = f.Key + ": " + s
	}
	if f.Line > 0 {
		s = "line " + strconv.Itoa(f.Line) + ": " + s
	}
	return s
}

// Parse reads a policy file. If there are findings, the layer must not be used.
func Parse(source string, text []byte) (Layer, []Finding) {
	if len(text) > MaxSize {
		return Layer{}, []Finding{{Message: fmt.Sprintf("the file has %d bytes; the limit is %d", len(text), MaxSize)}}
	}
	l := Layer{Source: source, lines: tomlkey.Parse(string(text))}
	meta, err := toml.Decode(string(text), &l.Document)
	if err != nil {
		if p, ok := errors.AsType[toml.ParseError](err); ok && p.Message != "" {
			return Layer{}, []Finding{{Line: p.Position.Line, Key: p.LastKey, Message: p.Message}}
		}
		return Layer{}, []Finding{{Message: strings.TrimPrefix(err.Error(), "toml: ")}}
	}
	for _, key := range meta.Keys() { // a key in an inline table gets the line of the table; the decoder ignores case
		at := strings.Join(key, ".")
		for _, name := range []string{at, strings.ToLower(at)} {
			if l.lines[name] == 0 {
				l.lines[name] = l.lines.Of(at)
			}
		}
	}
	c := checker{lines: l.lines}
	for _, key := range meta.Undecoded() {
		c.addProblem(key.String(), "there is no such key")
	}
	c.checkRules("", l.Actions, l.Intents, l.Paths)
	c.checkBudgets("", l.Budgets)
	c.checkLimit(RateName, l.Rate.Intents)
	for i, p := range l.Bots.Names {
		l.Bots.Names[i] = strings.ToLower(p)
	}
	c.checkPatterns(botNames, l.Bots.Names)
	for _, name := range sortedKeys(l.Profiles) {
		p, at := l.Profiles[name], "profiles."+name
		if len(p.Repositories) == 0 {
			c.addProblem(at, "a profile needs repositories")
		}
		c.checkPatterns(at+".repositories", p.Repositories)
		c.checkRules(at+".", p.Actions, p.Intents, p.Paths)
		c.checkBudgets(at+".", p.Budgets)
	}
	slices.SortStableFunc(c.findings, func(a, b Finding) int { return a.Line - b.Line })
	return l, c.findings
}

// CheckRepository returns the findings about a layer that is the policy of a repository: keys that have no effect there.
func CheckRepository(l Layer) (findings []Finding) {
	c := checker{lines: l.lines}
	if len(l.Profiles) > 0 {
		c.addProblem("profiles", "only the policy of a server has profiles")
	}
	if len(l.World.Allow)+len(l.World.Deny) > 0 {
		c.addProblem("world", "only the policy of a server has rules about skills")
	}
	if l.Rate != (Rate{}) {
		c.addProblem("rate", "only the policy of a server has it")
	}
	for _, name := range sortedKeys(l.Actions) {
		if l.Actions[name].Notes {
			c.addProblem("actions."+name+".notes", "only the policy of a server has it")
		}
	}
	for _, kind := range sortedKeys(l.Intents) {
		if l.Intents[kind].Older != "" {
			c.addProblem("intents."+kind+".older", "only the policy of a server has it")
		}
	}
	if len(l.Budgets.Raise.By) > 0 {
		c.addProblem("budgets."+RaiseName, "only the policy of a server has it")
	}
	for _, kind := range []string{string(budget.Day), estimateName} {
		if l.Budgets.findBudget(kind) != (Budget{}) {
			c.addProblem("budgets."+kind, "only the policy of a server has it")
		}
	}
	return c.findings
}

type checker struct {
	lines    tomlkey.Lines
	findings []Finding
}

func (c *checker) addProblem(key, format string, a ...any) {
	c.findings = append(c.findings, Finding{Line: c.lines.Of(key), Key: key, Message: fmt.Sprintf(format, a...)})
}

func (c *checker) checkRules(at string, actions map[string]Action, intents map[string]Intent, paths []Path) {
	for _, name := range sortedKeys(actions) {
		a, key := actions[name], at+"actions."+name
		c.checkApproval(key, a.Class, a.Decision, a.Approve)
		c.checkNames(key, name, a)
		c.checkLimit(key+".max", a.Max)
		if a.Notes && name != protocol.ActionPushBranch && name != protocol.ActionOpenPR {
			c.addProblem(key+".notes", "%s pushes no commit", name)
		}
		for _, parameter := range sortedKeys(a.Allowed) {
			c.checkPatterns(key+".allowed."+parameter, a.Allowed[parameter])
		}
	}
	for _, kind := range sortedKeys(intents) {
		i := intents[kind]
		c.checkApproval(at+"intents."+kind, i.Class, i.Decision, i.Approve)
		c.oneOf(at+"intents."+kind+".older", string(i.Older), []string{string(KeepOlder), string(CancelOlder)}, true)
	}
	for n, p := range paths {
		key := fmt.Sprintf("%spaths[%d]", at, n)
		c.oneOf(key+".decision", string(p.Decision), PathDecisions(), false)
		if p.Name == "" || len(p.Match) == 0 {
			c.addProblem(key, "a rule about files needs name and match")
		}
		c.checkPatterns(key+".match", p.Match)
	}
}

func (c *checker) checkApproval(key string, class Class, d lattice.Verdict, a Approve) {
	c.oneOf(key+".class", string(class), Classes(), true)
	c.oneOf(key+".decision", string(d), Decisions(), true)
	if a.People < 0 || a.People > 10 {
		c.addProblem(key+".approve.people", "the number of people is from 1 to 10")
	}
}

// checkLimit reports a limit that is written and not more than 0.
func (c *checker) checkLimit(key string, limit int) {
	if limit < 0 || limit == 0 && c.lines[key] > 0 {
		c.addProblem(key, "%d is not a limit; leave it out to set no limit", limit)
	}
}

// Decisions returns the decisions that a rule can make.
func Decisions() []string {
	return []string{string(lattice.Allow), string(lattice.Ask), string(lattice.Deny)}
}

func (c *checker) oneOf(key, value string, values []string, optional bool) {
	if !slices.Contains(values, value) && (value != "" || !optional) {
		c.addProblem(key, "%q is not one of %s", value, strings.Join(values, ", "))
	}
}

func (c *checker) checkPatterns(key string, patterns []string) {
	for _, p := range patterns {
		if _, err := path.Match(strings.ReplaceAll(p, "**", "*"), ""); err != nil || p == "" {
			c.addProblem(key, "%q is not a pattern", p)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// checkNames reports names in a rule about an action that match nothing, so that the rule would have no effect.
func (c *checker) checkNames(key, action string, a Action) {
	known := listParameters(action)
	if known == nil {
		if near := nearestName(action, sortedKeys(parametersOf)); near != "" {
			c.addProblem(key, "lattice knows no action %s; did you mean %s?", action, near)
		}
		return
	}
	for _, name := range sortedKeys(a.Allowed) {
		at := key + ".allowed." + name
		switch near := nearestName(name, known); {
		case slices.Contains(known, name):
		case near != "":
			c.addProblem(at, "%s has no parameter %s; did you mean %s?", action, name, near)
		default:
			c.addProblem(at, "%s has no parameter %s; it has %s", action, name, strings.Join(known, ", "))
		}
	}
}

// Rate limits how often one person or token may ask.
type Rate struct {
	// Intents is the number of intents that one person or token may create in an hour.
	Intents int `toml:"intents_per_hour" json:"intents_per_hour,omitempty"`
}

// Older decides about older intents of the same kind, subject and repository that have not ended.
type Older string

// The values of Older.
const (
	KeepOlder   Older = "keep"
	CancelOlder Older = "cancel"
)

// RateName is the name of the rule that limits the number of intents.
const RateName = "rate.intents_per_hour"

// Older returns the decision about older intents of a kind: the first of the server's layers that has a rule decides.
func (p Policy) Older(kind string) Older {
	for _, l := range p.ceiling {
		if o := l.Intents[kind].Older; o != "" {
			return o
		}
	}
	return KeepOlder
}
