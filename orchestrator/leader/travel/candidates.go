package travel

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/leader/retention"
	"github.com/spritekit/lattice/orchestrator/timeline"
)

// Candidates lists the attempts that a run makes side by side (api.Review).
func (v *Reviewer) Candidates(ctx context.Context, id string) ([]api.Candidate, error) {
	view, err := v.Views.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	program, err := v.Views.Program(ctx, view.RunID)
	if err != nil {
		return nil, err
	}
	var doc ir.Document
	if err := json.Unmarshal(program, &doc); err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	fold := timeline.Candidates{Run: view.RunID, Sprite: view.Sprite}
	for _, n := range doc.Nodes {
		if n.Op == ir.OpMap && n.ForksSprites() {
			fold.Nodes = append(fold.Nodes, n.ID)
		}
	}
	if len(fold.Nodes) == 0 || view.Sprite == "" {
		return []api.Candidate{}, nil
	}
	if err := v.Travel.Records.Outline(ctx, view.RunID, 0, fold.Add); err != nil {
		return nil, err
	}
	copies, err := v.Client.List(ctx, retention.CopyPrefix(view.Sprite))
	if err != nil {
		return nil, problem.SpriteProblem(err)
	}
	urls := map[string]string{}
	for _, s := range copies {
		urls[s.Name] = s.URL
	}
	return fold.List(func(sprite string) (string, bool) {
		url, ok := urls[sprite]
		return url, ok
	}), nil
}
