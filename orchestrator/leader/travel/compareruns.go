package travel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/timeline"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/fault"
)

// CompareRuns returns the differences between the present of two runs, node by node and file by file (api.Review). Of files it
// compares those that either run has changed.
func (v *Reviewer) CompareRuns(ctx context.Context, id, with string) (api.RunComparison, error) {
	out := api.RunComparison{Nodes: []difference.Node{}, Vars: []difference.Variable{}, Files: []sprites.Change{}}
	var pasts [2]history.Past
	var values [2]map[string]any
	var nodes [2]map[string]difference.Side
	var order []string
	for i, name := range []string{id, with} {
		run, err := v.Travel.Records.Resolve(name)
		if err != nil {
			return out, err
		}
		if pasts[i], err = v.Travel.loadPast(ctx, run); err != nil {
			return out, err
		}
		if values[i], err = v.valuesOf(ctx, pasts[i]); err != nil {
			return out, err
		}
		if nodes[i], err = v.nodesOf(ctx, run, &order); err != nil {
			return out, err
		}
	}
	out.RunID, out.With = pasts[0].ID, pasts[1].ID
	if out.RunID == out.With {
		return out, fault.BadInput("same_run", "%s is compared with itself", out.RunID).WithHint("lattice diff %s A B compares two moments of it", out.RunID)
	}
	for _, node := range order {
		c := difference.Node{Node: node}
		if side, ok := nodes[0][node]; ok {
			c.From = &side
		}
		if side, ok := nodes[1][node]; ok {
			c.To = &side
		}
		out.Nodes = append(out.Nodes, c)
	}
	for _, root := range []string{"$vars", "outputs"} {
		var err error
		if out.Vars, err = appendChanges(out.Vars, root, values[0][root], values[1][root]); err != nil {
			return out, err
		}
	}
	return v.compareRunFiles(ctx, out, pasts)
}

// valuesOf returns the variables and the outputs of a run.
func (v *Reviewer) valuesOf(ctx context.Context, p history.Past) (map[string]any, error) {
	folded, err := replay.Fold(p.Parsed, p.ID, p.Facts)
	if err != nil {
		return nil, err
	}
	view, err := v.Views.Run(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	values := map[string]any{"$vars": folded.State.Vars, "outputs": map[string]any{}}
	if len(view.Outputs) > 0 {
		if values["outputs"], err = expr.Decode(view.Outputs); err != nil {
			return nil, fmt.Errorf("read the outputs of %s: %w", p.ID, err)
		}
	}
	return values, nil
}

// nodesOf returns where the nodes of a run stand, and adds the names of new ones to order.
func (v *Reviewer) nodesOf(ctx context.Context, run string, order *[]string) (map[string]difference.Side, error) {
	t := timeline.New()
	if err := v.Travel.Records.Outline(ctx, run, 0, func(e lattice.Entry) error { t.Add(e); return nil }); err != nil {
		return nil, err
	}
	nodes := map[string]difference.Side{}
	for _, s := range t.All() {
		if s.Node == "" {
			continue
		}
		side := nodes[s.Node]
		side.Visits++
		side.State, side.Message = string(s.State), s.Message
		if !s.Ended.IsZero() {
			side.DurationMS += s.Ended.Sub(s.Started).Milliseconds()
		}
		if nodes[s.Node] = side; !slices.Contains(*order, s.Node) {
			*order = append(*order, s.Node)
		}
	}
	return nodes, nil
}

// compareRunFiles compares the content of the files that either run has changed since its beginning.
func (v *Reviewer) compareRunFiles(ctx context.Context, out api.RunComparison, runs [2]history.Past) (api.RunComparison, error) {
	paths := map[string]bool{} // whether it can be shown
	for _, p := range runs {
		if len(p.Points) == 0 {
			out.Note = "files are not compared: " + p.ID + " has begun no node yet"
			return out, nil
		}
		changes, note, err := v.Travel.compareFiles(ctx, p, p.Points[0], nil)
		if err != nil || note != "" {
			out.Note = note
			return out, err
		}
		for _, c := range changes {
			shown := (c.Type == "file" || c.Type == "") && c.Size <= maxShownFile && !isGit(c.Path)
			if known, ok := paths[c.Path]; !ok || known {
				paths[c.Path] = shown
			}
		}
	}
	if runs[0].Sprite == runs[1].Sprite {
		out.Note = "files are not compared: both runs had sprite " + runs[0].Sprite
		return out, nil
	}
	var pairs []worktree.FilePair
	left := 0
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if isGit(path) {
			continue
		}
		if !paths[path] || len(pairs) == maxShownFiles {
			left++
			continue
		}
		pair := worktree.FilePair{Path: path}
		for i, content := range []*[]byte{&pair.Before, &pair.After} {
			data, err := v.Client.ReadFile(ctx, runs[i].Sprite, path, maxShownFile)
			switch {
			case errors.Is(err, sprites.ErrNotFound), errors.Is(err, sprites.ErrTooLarge):
			case err != nil:
				return out, err
			default:
				*content = append([]byte{}, data...)
			}
		}
		if bytes.Equal(pair.Before, pair.After) && (pair.Before == nil) == (pair.After == nil) {
			continue
		}
		pairs = append(pairs, pair)
		change := "modified"
		switch {
		case pair.Before == nil:
			change = "added"
		case pair.After == nil:
			change = "deleted"
		}
		out.Files = append(out.Files, sprites.Change{Path: path, Change: change, Size: int64(len(pair.After)), OldSize: int64(len(pair.Before))})
	}
	patch, err := v.Git.PatchOf(ctx, pairs)
	out.Patch = difference.Patch{Text: patch.Text, Cut: patch.Cut}
	if left > 0 {
		out.Patch.Note = fmt.Sprintf("%d paths are left out: folders, links, files over %d KiB, or more than %d files", left, maxShownFile>>10, maxShownFiles)
	}
	return out, err
}
