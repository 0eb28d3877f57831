// Package policy decides what a run may do outside of its sprite. Start with [Policy.Action]: it returns the verdict about
// one action and names the rule that decided. The package is pure: it gets the text of policy files and values, and does
// no I/O.
//
// A policy is made of layers. The default table is in the binary (default.toml). The server's file, policy.toml in the folder
// of config.toml, replaces rules of the default; a profile in it replaces rules for some repositories. Together they are the
// ceiling. A repository's file, .lattice/policy.toml in the base commit of a run, can only make the ceiling stricter.
//
// An action that no rule names has the class controlled: a person is asked. An action of the class dangerous is never
// performed without a person, even if a rule allows it.
package policy

import (
	"cmp"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/tomlkey"
)

// Class is the risk class of an action or an intent (DESIGN 21).
type Class string

const (
	Safe       Class = "safe"       // reads or informs; never asks
	Controlled Class = "controlled" // changes one thing outside
	Dangerous  Class = "dangerous"  // hands out authority or touches infrastructure; asks every time
)

// Classes returns the classes in ascending order of risk.
func Classes() []string { return []string{string(Safe), string(Controlled), string(Dangerous)} }

// defaultVerdict returns the default decision of a class.
func (c Class) defaultVerdict() lattice.Verdict {
	if c == Safe {
		return lattice.Allow
	}
	return lattice.Ask
}

// Layer is a policy document with its origin.
type Layer struct {
	Document
	Source string // a file name, or "default"
	lines  tomlkey.Lines
}

// Policy is a ceiling and the layer of a repository that makes it stricter. The zero value denies nothing and asks about
// everything; see [New].
type Policy struct {
	ceiling    []Layer // the first layer that has a rule decides
	repository *Layer
}

// New returns the policy that the layers of a server form on top of the default table, the first layer first. Profiles of
// the layers hold if they name repository, "" for none.
func New(repository string, server ...Layer) Policy {
	var p Policy
	for _, l := range append(slices.Clip(server), Default()) {
		for _, name := range sortedKeys(l.Profiles) {
			if prof := l.Profiles[name]; repository != "" && matchesRepository(prof.Repositories, repository) {
				p.ceiling = append(p.ceiling, l.profileLayer(name, prof))
			}
		}
		p.ceiling = append(p.ceiling, l)
	}
	return p
}

// Narrow returns p with a repository's layer, which can only make it stricter.
func (p Policy) Narrow(repository Layer) Policy {
	p.repository = &repository
	return p
}

// profileLayer returns the rules of a profile as a layer.
func (l Layer) profileLayer(name string, prof Profile) Layer {
	out := Layer{Source: l.Source, lines: tomlkey.Lines{}}
	out.Actions, out.Intents, out.World, out.Paths, out.Budgets = prof.Actions, prof.Intents, prof.World, prof.Paths, prof.Budgets
	for key, line := range l.lines {
		if rest, ok := strings.CutPrefix(key, "profiles."+name+"."); ok {
			out.lines[rest] = line
		}
	}
	return out
}

// Rule names the rule that decided.
type Rule struct {
	Source string `json:"source"`         // a file, "default", or "class" where no file has a rule
	Line   int    `json:"line,omitempty"` // in the file; 0 for the default table
	Name   string `json:"name"`           // the key of the rule in its file
}

// String returns the rule as SOURCE:LINE: NAME.
func (r Rule) String() string {
	if r.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", r.Source, r.Line, r.Name)
	}
	return r.Source + ": " + r.Name
}

// ruleOf returns the Rule for a key of the layer.
func (l Layer) ruleOf(key string) Rule {
	r := Rule{Source: l.Source, Name: key}
	if l.Source != defaultSource {
		r.Line = l.lines[key]
	}
	return r
}

// Verdict is the decision about one question.
type Verdict struct {
	Decision lattice.Verdict `json:"decision"`
	Class    Class           `json:"class,omitempty"`
	Rule     Rule            `json:"rule"`
	// Code and Reason say why the decision is Deny.
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Staged says that the effect is shown and not performed.
	Staged bool `json:"staged,omitempty"`
	// Notes says that a push exports the signed statement about its commit.
	Notes bool `json:"notes,omitempty"`
	// Max is the number of actions of this name that one run may ask for, 0 without a limit.
	Max     int     `json:"max,omitempty"`
	Approve Approve `json:"approve,omitzero"`
	// Older decides about older intents about the same subject.
	Older Older `json:"older,omitempty"`
}

// The codes of denials.
const (
	CodeDenied = "denied_by_policy"
	CodeValue  = "value_denied"     // a value that the rule does not allow
	CodeMax    = "too_many_actions" // the run has asked for as many as the rule allows
	CodeTarget = "target_denied"    // another repository than the run's, which no rule allows
)

// repoValue is the value that names the repository of an action.
const repoValue = "repo"

// denyBy turns v into a refusal by rule.
func (v Verdict) denyBy(rule Rule, code, format string, a ...any) Verdict {
	v.Decision, v.Rule, v.Code, v.Reason = lattice.Deny, rule, code, fmt.Sprintf(format, a...)
	return v
}

// Request is an action as the policy sees it.
type Request struct {
	Name string
	// Values are the values of parameters that rules may restrict, by parameter.
	Values map[string][]string
	// Before is the number of other actions of this name that the run has asked for and that were not denied.
	Before int
	// Planned says that an approved plan names the action.
	Planned bool
	// Foreign says that the action is about another repository than the run's. The policy of the server must name it in
	// allowed.repo.
	Foreign bool
}

// Action decides about an action.
func (p Policy) Action(q Request) Verdict {
	v, rules := p.mergeRules("actions", q.Name, func(l Layer) (Action, bool) { a, ok := l.Actions[q.Name]; return a, ok })
	if q.Foreign && (len(rules) == 0 || rules[0].repository || rules[0].Allowed[repoValue] == nil) {
		return v.denyBy(v.Rule, CodeTarget, "the policy allows %s only for the repository of the run, not for %.128q", q.Name, strings.Join(q.Values[repoValue], ", "))
	}
	for _, r := range rules {
		for _, name := range sortedKeys(r.Allowed) {
			matches := matchesAny
			if name == repoValue {
				matches = matchesRepository
			}
			for _, value := range q.Values[name] {
				if !matches(r.Allowed[name], value) {
					return v.denyBy(r.rule, CodeValue, "the policy allows %s only with %s of %s, not %.80q", q.Name, name, strings.Join(r.Allowed[name], ", "), value)
				}
			}
		}
		if r.Max > 0 && q.Before >= r.Max {
			return v.denyBy(r.rule, CodeMax, "the policy allows %d %s in one run", r.Max, q.Name)
		}
	}
	if q.Planned && v.Decision == lattice.Ask && v.Class == Controlled {
		v.Decision, v.Rule = lattice.Allow, Rule{Source: "plan", Name: "approved"}
	}
	return v
}

// Intent decides about an intent of a kind.
func (p Policy) Intent(kind string) Verdict {
	v, _ := p.mergeRules("intents", kind, func(l Layer) (Action, bool) { i, ok := l.Intents[kind]; return i.asAction(), ok })
	v.Older = p.Older(kind)
	return v
}

// Urgent returns the verdict about an intent that the server's own settings call urgent: it is allowed if only the default
// table asks. A rule of a file still asks or denies.
func (v Verdict) Urgent() Verdict {
	if v.Decision == lattice.Ask && v.Rule.Source == "default" {
		v.Decision, v.Rule = lattice.Allow, Rule{Source: "settings", Name: "schedules.severity"}
	}
	return v
}

// World decides about calls of a skill of class world: the first layer that names it decides, else a person is asked.
// Policies of repositories have no such rules.
func (p Policy) World(skill string) Verdict {
	v := Verdict{Decision: lattice.Ask, Class: Controlled, Rule: Rule{Source: "class", Name: string(Controlled)}}
	for _, l := range p.ceiling {
		if slices.Contains(l.World.Deny, skill) {
			return v.denyBy(l.ruleOf("world.deny"), CodeDenied, "the policy denies calls of %s", skill)
		}
		if slices.Contains(l.World.Allow, skill) {
			v.Decision, v.Rule = lattice.Allow, l.ruleOf("world.allow")
			return v
		}
	}
	return v
}

// WorldAllowed returns the skills that the policy names as allowed.
func (p Policy) WorldAllowed() (names []string) {
	for _, l := range p.ceiling {
		for _, name := range l.World.Allow {
			if p.World(name).Decision == lattice.Allow {
				names = append(names, name)
			}
		}
	}
	return names
}

// Admits reports whether a person may approve, and why not. requesters are those who asked for it; approvers are the people
// whose approvals hold already. more is the number of further people who must approve after this one.
func (a Approve) Admits(who audit.Who, requesters []audit.Who, approvers []audit.Who) (more int, reason string) {
	if len(a.By) > 0 && !slices.Contains(a.By, who.Name) && !slices.Contains(a.By, fmt.Sprintf("uid:%d", who.UID)) {
		return 0, fmt.Sprintf("the policy does not let %s approve it", who.Name)
	}
	if a.NotRequester && len(requesters) == 0 {
		return 0, "the policy requires another person than the one who asked for it, and that person is not known"
	}
	same := func(w audit.Who) bool { return IsSame(w, who) }
	if a.NotRequester && slices.ContainsFunc(requesters, same) {
		return 0, fmt.Sprintf("%s asked for it; the policy requires another person's approval", who.Name)
	}
	people := map[string]bool{identityOf(who): true}
	for _, w := range approvers {
		people[identityOf(w)] = true
	}
	return max(0, a.People-len(people)), ""
}

// IsSame reports whether two callers are the same person or token.
func IsSame(a, b audit.Who) bool { return identityOf(a) == identityOf(b) }

// identityOf tells people apart: users of this machine by their number, tokens by their name.
func identityOf(w audit.Who) string {
	if w.UID >= 0 {
		return fmt.Sprintf("uid:%d", w.UID)
	}
	return w.Name
}

// Names returns the names that rules of a kind, "action" or "intent", are about.
func (p Policy) Names(kind string) []string {
	names := map[string]bool{}
	for _, l := range p.allLayers() {
		if kind == "intent" {
			for name := range l.Intents {
				names[name] = true
			}
			continue
		}
		for name := range l.Actions {
			names[name] = true
		}
	}
	return sortedKeys(names)
}

// allLayers returns all layers, the repository's last.
func (p Policy) allLayers() []Layer {
	if p.repository == nil {
		return p.ceiling
	}
	return append(slices.Clip(p.ceiling), *p.repository)
}

// origin is a rule about an action with its place.
type origin struct {
	Action
	rule       Rule
	repository bool // the rule is one of a repository
}

// mergeRules merges the rules about one name. It returns the verdict without regard to values, and the rules whose limits
// hold.
func (p Policy) mergeRules(table, name string, find func(Layer) (Action, bool)) (Verdict, []origin) {
	key := table + "." + name
	v := Verdict{Class: Controlled}
	var rules []origin
	decided := Rule{Source: "class", Name: string(Controlled)}
	for _, l := range p.ceiling { // the first layer that sets a member wins
		a, ok := find(l)
		if !ok {
			continue
		}
		at := origin{a, l.ruleOf(key), false}
		if len(rules) == 0 {
			decided = at.rule
			rules = append(rules, at)
		} else {
			rules[0].Action = rules[0].fillFrom(a)
		}
	}
	if len(rules) > 0 {
		v.Class = Class(orElse(string(rules[0].Class), string(Controlled)))
		v.Notes = rules[0].Notes
	}
	if l := p.repository; l != nil {
		if a, ok := find(*l); ok {
			rules = append(rules, origin{a, l.ruleOf(key), true})
		}
	}
	for i, r := range rules {
		if i > 0 && riskOf(r.Class) > riskOf(v.Class) {
			v.Class, decided = r.Class, r.rule
		}
		v.Staged = v.Staged || r.Staged
		if r.Max > 0 && (v.Max == 0 || r.Max < v.Max) {
			v.Max = r.Max
		}
		v.Approve = v.Approve.unionWith(r.Approve)
	}
	v.Decision, v.Rule = v.Class.defaultVerdict(), decided
	for i, r := range rules {
		if d := r.Decision; d != "" && (i == 0 || rankVerdict(d) > rankVerdict(v.Decision)) {
			v.Decision, v.Rule = d, r.rule
		}
	}
	switch {
	case v.Decision == lattice.Deny:
		v = v.denyBy(v.Rule, CodeDenied, "the policy denies %s", name)
	case v.Decision == lattice.Allow && v.Class == Dangerous:
		v.Decision = lattice.Ask
	}
	return v, rules
}

// fillFrom returns a with the members that it leaves out taken from b, a rule of a lower layer. A class can only be raised.
func (a Action) fillFrom(b Action) Action {
	if riskOf(b.Class) > riskOf(a.Class) {
		a.Class = b.Class
	}
	a.Decision = cmp.Or(a.Decision, b.Decision)
	a.Max = cmp.Or(a.Max, b.Max)
	if a.Allowed == nil {
		a.Allowed = b.Allowed
	}
	a.Staged = a.Staged || b.Staged
	a.Notes = a.Notes || b.Notes
	if len(a.Approve.By) == 0 {
		a.Approve.By = b.Approve.By
	}
	a.Approve.NotRequester = a.Approve.NotRequester || b.Approve.NotRequester
	a.Approve.People = max(a.Approve.People, b.Approve.People)
	a.Approve.Expires = cmp.Or(a.Approve.Expires, b.Approve.Expires)
	return a
}

func riskOf(c Class) int { return slices.Index(Classes(), string(c)) }

// rankVerdict orders decisions.
func rankVerdict(d lattice.Verdict) int {
	return slices.Index([]lattice.Verdict{lattice.Allow, lattice.Ask, lattice.Deny}, d)
}

// matchesAny reports whether a value matches one of the patterns of path.Match; an invalid pattern was refused by Parse.
func matchesAny(patterns []string, value string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, value); return ok })
}

// matchesRepository reports whether a repository is one of patterns. A repository is a URL without scheme, user and the
// suffix .git, or an absolute path; a pattern that ends in "/" names all below it.
func matchesRepository(patterns []string, repository string) bool {
	name := RepositoryName(repository)
	return slices.ContainsFunc(patterns, func(p string) bool {
		p = strings.ToLower(p)
		ok, _ := path.Match(p, name)
		return ok || strings.HasSuffix(p, "/") && strings.HasPrefix(name, p)
	})
}

// RepositoryName returns the name under which rules know a repository: github.com/acme/site for each of its URLs.
func RepositoryName(spec string) string {
	name := strings.ToLower(spec)
	if _, rest, ok := strings.Cut(name, "://"); ok {
		name = rest
	} else if user, rest, ok := strings.Cut(name, "@"); ok && !strings.HasPrefix(name, "/") && !strings.Contains(user, "/") {
		name = strings.Replace(rest, ":", "/", 1) // git@host:path
	}
	if host, rest, ok := strings.Cut(name, "/"); ok && host != "" {
		if _, bare, ok := strings.Cut(host, "@"); ok {
			name = bare + "/" + rest
		}
	}
	return strings.TrimSuffix(strings.TrimSuffix(name, "/"), ".git")
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

const defaultSource = "default"

//go:embed default.toml
var defaultText []byte

// Default returns the default table.
func Default() Layer { return defaultLayer() }

// defaultLayer is read once; it is never changed.
var defaultLayer = sync.OnceValue(func() Layer {
	l, findings := Parse(defaultSource, defaultText)
	if len(findings) > 0 {
		panic("default.toml: " + findings[0].Text())
	}
	return l
})

// DefaultText returns the text of the default table.
func DefaultText() []byte { return slices.Clone(defaultText) }

// Bot returns why the caller is a program and the rule that says so; the reason is "" for a person. variables are the names of the
// caller's environment variables, as far as they are known.
func (p Policy) Bot(who audit.Who, variables []string) (reason string, rule Rule) {
	if who.Bot {
		return fmt.Sprintf("%s is a bot at its code host", orElse(who.Login, who.Name)), Rule{Source: "code host", Name: "bot"}
	}
	for _, l := range p.allLayers() {
		for _, name := range []string{who.Name, strings.TrimPrefix(who.Name, "token:"), who.Login} {
			if name != "" && matchesAny(l.Bots.Names, strings.ToLower(name)) {
				return fmt.Sprintf("%s is the name of a bot", name), l.ruleOf(botNames)
			}
		}
		for _, v := range l.Bots.Variables {
			if slices.Contains(variables, v) {
				return fmt.Sprintf("an agent started this command: its environment has %s", v), l.ruleOf(botVariables)
			}
		}
	}
	return "", Rule{}
}

// Rate returns the number of intents that one person or token may create in an hour, 0 without a limit, and the rule that says
// so: that of the first of the server's layers that has one.
func (p Policy) Rate() (limit int, rule Rule) {
	for _, l := range p.ceiling {
		if l.Rate.Intents > 0 {
			return l.Rate.Intents, l.ruleOf(RateName)
		}
	}
	return 0, Rule{Source: defaultSource, Name: RateName}
}
