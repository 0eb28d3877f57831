package skill

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// Siblings are the skills of other families, for a skill that is built on them.
type Siblings []Skill

// CallSkill calls a skill with the authority of c. Defaults of its manifest are not filled in. out receives its data.
func (s Siblings) CallSkill(ctx context.Context, c *Call, name string, in map[string]any, out any) error {
	i := slices.IndexFunc(s, func(sibling Skill) bool { return sibling.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no skill %s", name)
	}
	raw, err := json.Marshal(in)
	if err != nil {
		return err
	}
	inner := *c
	inner.Input = raw
	result, err := s[i].Run(ctx, &inner)
	if err != nil || out == nil {
		return err
	}
	if raw, err = json.Marshal(result.Data); err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}
