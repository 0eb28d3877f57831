package action

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/worktree"
)

// isGranted reports whether permissions contain p.
func isGranted(permissions []string, p string) bool {
	return slices.Contains(permissions, p) || slices.Contains(permissions, "*")
}

// refusalOf returns the refusal that a verdict is, nil if it is none.
func refusalOf(name string, v policy.Verdict) error {
	if v.Decision != lattice.Deny {
		return nil
	}
	rule := "the rule is " + v.Rule.String()
	switch {
	case v.Code == policy.CodeValue:
		return newRefusal("value_denied", rule, "%s", v.Reason)
	case v.Code == policy.CodeTarget:
		return newRefusal("target_denied", fmt.Sprintf("[actions.%s] allowed.repo in the policy of the server names the repositories; %s", name, rule), "%s", v.Reason)
	case v.Code == policy.CodeMax:
		return newRefusal("too_many_actions", rule, "%s", v.Reason)
	case v.Rule.Source == worktree.PolicyFile:
		return newRefusal("denied_by_policy", rule, "%s", v.Reason)
	}
	return newRefusal("denied_by_policy", fmt.Sprintf("[actions] %s = \"ask\" in the settings changes that; %s", name, rule), "%s", v.Reason)
}

// Values returns the parameters of an action as rules see them: each one a list of texts.
func Values(parameters json.RawMessage) map[string][]string {
	var members map[string]any
	if json.Unmarshal(parameters, &members) != nil {
		return nil // Inspect refuses them
	}
	out := map[string][]string{}
	for name, v := range members {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, item := range list {
			text, ok := item.(string)
			if !ok {
				raw, err := json.Marshal(item)
				if err != nil {
					continue
				}
				text = string(raw)
			}
			out[name] = append(out[name], text)
		}
	}
	return out
}

// checkTexts refuses parameters with a text that would close an issue of another repository, or load an image. It decodes texts in
// lists and objects first: the escapes of JSON would hide words in them.
func checkTexts(parameters json.RawMessage) error {
	var members map[string]any
	if json.Unmarshal(parameters, &members) != nil {
		return nil // Inspect refuses them
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		for _, text := range textsIn(members[name]) {
			if err := cmp.Or(checkClosing(text, "the parameter "+name), checkImages(text, "the parameter "+name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// textsIn returns the texts in a decoded JSON value.
func textsIn(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, item := range v {
			all = append(all, textsIn(item)...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = append(all, textsIn(v[name])...)
		}
	}
	return all
}

// review returns a Request.Review that searches a push for secrets and asks the policy about its files. The review sets
// ask if a rule about files requires a person.
func review(next func(context.Context, worktree.Content) ([]string, error), p policy.Policy, ask *bool) func(context.Context, worktree.Content) ([]string, error) {
	return func(ctx context.Context, c worktree.Content) ([]string, error) {
		changes := make([]policy.Change, len(c.Changes))
		for i, change := range c.Changes {
			changes[i] = policy.Change(change)
		}
		lines, refused, person := p.Review(changes, worktree.DisplayName)
		if refused != nil {
			return nil, newRefusal("path_denied", "remove the file from the change; lattice policy explain PATH; the rule is "+refused.Rule.String(),
				"the policy refuses changes that hold %s, which %s", worktree.DisplayName(refused.Path), refused.Why)
		}
		*ask = *ask || person
		found, err := next(ctx, c)
		return append(found, lines...), err
	}
}
