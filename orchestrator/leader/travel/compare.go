package travel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/retention"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Compare returns the changes of variables and files between two moments of a run (api.Travel).
func (t *Travel) Compare(ctx context.Context, id, from, to string) (api.Comparison, error) {
	id, err := t.Records.Resolve(id)
	if err != nil {
		return api.Comparison{}, err
	}
	p, err := t.loadPast(ctx, id)
	if err != nil {
		return api.Comparison{}, err
	}
	a, b, err := p.Moments(from, to)
	if err != nil {
		return api.Comparison{}, err
	}
	ids, found, err := t.listCheckpoints(ctx, p.Sprite)
	if err != nil {
		return api.Comparison{}, err
	}
	out := api.Comparison{RunID: id, From: p.Judged(a, ids, found), Vars: []difference.Variable{}, Files: []sprites.Change{}}
	before, err := replay.StateAt(p.Parsed, id, p.Facts, a)
	if err != nil {
		return api.Comparison{}, err
	}
	after := runstate.State{}
	if b == nil {
		folded, err := replay.Fold(p.Parsed, id, p.Facts)
		if err != nil {
			return api.Comparison{}, err
		}
		after = folded.State
	} else {
		if after, err = replay.StateAt(p.Parsed, id, p.Facts, *b); err != nil {
			return api.Comparison{}, err
		}
		m := p.Judged(*b, ids, found)
		out.To = &m
	}
	if out.Vars, err = appendChanges(out.Vars, "$vars", before.Vars, after.Vars); err != nil {
		return api.Comparison{}, err
	}
	out.Files, out.Note, err = t.compareFiles(ctx, p, a, b)
	return out, err
}

// compareFiles compares the files of two moments; b is nil for the present. The note is the reason why it cannot.
func (t *Travel) compareFiles(ctx context.Context, p history.Past, a replay.Point, b *replay.Point) ([]sprites.Change, string, error) {
	none := []sprites.Change{}
	ends, note, err := t.findEnds(ctx, p, a, b)
	if err != nil || note != "" || ends[0] == ends[1] {
		return none, note, err
	}
	files, err := t.Client.Diff(ctx, p.Sprite, ends[0], ends[1])
	if _, ok := errors.AsType[*sprites.APIError](err); ok && retention.CannotFork(err) {
		return none, "files are not compared: this Sprites API does not", nil
	}
	theirs := none
	for _, f := range files {
		if f.Path != bookkeeping && !strings.HasPrefix(f.Path, bookkeeping+"/") {
			theirs = append(theirs, f)
		}
	}
	return theirs, "", err
}

// findEnds returns the checkpoints with the files of two moments, or a note with the reason why there are none.
func (t *Travel) findEnds(ctx context.Context, p history.Past, a replay.Point, b *replay.Point) (ends [2]string, note string, err error) {
	ends = [2]string{sprites.Current, sprites.Current}
	if a.Files == replay.FilesNone {
		return ends, "", nil
	}
	ids, found, err := t.listCheckpoints(ctx, p.Sprite)
	if err != nil {
		return ends, "", err
	}
	for i, pt := range []*replay.Point{&a, b} {
		if pt == nil {
			if !found {
				return ends, "files are not compared: sprite " + p.Sprite + " is gone", nil
			}
			continue
		}
		if why := history.Missing(*pt, p.Sprite, ids, found); why != "" {
			return ends, fmt.Sprintf("files are not compared: of %s#%d %s", pt.Name(), pt.Visit, why), nil
		}
		if pt.Pair != nil {
			ends[i] = pt.Pair.CheckpointID
		}
	}
	return ends, "", nil
}

// bookkeeping is the folder of the runtime's own files in a sprite, which each step changes.
const bookkeeping = "/workspace/" + protocol.Dir

// appendChanges appends the differences of two values below a path: of objects each member, of other values the whole.
func appendChanges(out []difference.Variable, path string, a, b any) ([]difference.Variable, error) {
	from, wasObject := a.(map[string]any)
	to, isObject := b.(map[string]any)
	if wasObject && isObject {
		names := maps.Clone(from)
		maps.Copy(names, to)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			below := path + "." + name
			old, was := from[name]
			now, is := to[name]
			var err error
			switch {
			case was && is:
				out, err = appendChanges(out, below, old, now)
			case was:
				out, err = appendChange(out, below, &old, nil)
			default:
				out, err = appendChange(out, below, nil, &now)
			}
			if err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return appendChange(out, path, &a, &b)
}

func appendChange(out []difference.Variable, path string, a, b *any) ([]difference.Variable, error) {
	c := difference.Variable{Path: path}
	for _, side := range []struct {
		v  *any
		to *json.RawMessage
	}{{a, &c.From}, {b, &c.To}} {
		if side.v == nil {
			continue
		}
		raw, err := expr.Marshal(*side.v)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", path, err)
		}
		*side.to = raw
	}
	if a != nil && b != nil && bytes.Equal(c.From, c.To) {
		return out, nil
	}
	return append(out, c), nil
}
