package scribe

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/text"
)

// An agent tells its assumptions in INFO events of the kind assumption. When its run waits for a review, each becomes a comment on its
// line of the pull request, once. One comment holds those whose lines the pull request does not show.

// assumedPosts begin the keys of comments on lines about assumptions.
const assumedPosts = "assumed:"

// maxAssumed bounds the comments on lines about the assumptions of a run.
const maxAssumed = 20

// assumptionsOf returns the assumptions in an event: one for each file that it names, or one about none.
func assumptionsOf(e lattice.Entry) (all []presence.Assumption) {
	if e.Kind != lattice.EntryEvent || e.Type != string(protocol.TypeInfo) || len(e.Problems) > 0 {
		return nil
	}
	event, _, ok := protocol.Decode(e.Body)
	if !ok {
		return nil
	}
	payload, err := event.Open()
	info, ok := payload.(protocol.Info)
	if err != nil || !ok || info.Kind != "assumption" {
		return nil
	}
	var named struct {
		Files []struct {
			Path  string          `json:"path"`
			Lines json.RawMessage `json:"lines"`
			Note  string          `json:"note"`
		} `json:"files"`
	}
	if len(info.Metadata) == 0 || json.Unmarshal(info.Metadata, &named) != nil || len(named.Files) == 0 {
		return []presence.Assumption{{Note: info.Message}}
	}
	for _, f := range named.Files {
		note := info.Message
		if f.Note != "" && f.Note != note {
			note += "\n\n" + f.Note
		}
		all = append(all, presence.Assumption{Path: text.Head(f.Path, maxPath), Line: lastLine(f.Lines), Note: note})
	}
	return all
}

const maxPath = 512 // bytes

// lastLine returns the last of some lines, under which code hosts show a comment: of a number, a list of numbers, or a text such
// as 3-5. It is 0 if there is none.
func lastLine(lines json.RawMessage) (last int) {
	for _, word := range strings.FieldsFunc(string(lines), func(r rune) bool { return r < '0' || '9' < r }) {
		n := 0
		if _, err := fmt.Sscan(word, &n); err == nil {
			last = max(last, n)
		}
	}
	return last
}

// showAssumptions writes the comments about the assumptions of a run that waits for a review.
func (w *writer) showAssumptions(ctx context.Context, run string, wait lattice.Wait, head string) error {
	done := w.Thread.String() + " " + assumedPosts + run + ":" + wait.ID
	if w.shown[done] != "" {
		return nil
	}
	var all, elsewhere []presence.Assumption
	err := w.Runs.Entries(ctx, run, 0, func(e lattice.Entry) error {
		for _, a := range assumptionsOf(e) {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the assumptions of %s: %w", run, err)
	}
	for i, a := range all {
		shown := false
		if i < maxAssumed && a.Line > 0 && filepath.IsLocal(a.Path) && text.Line(a.Path) == a.Path {
			if shown, err = w.showOnLine(ctx, run, head, a); err != nil {
				return err
			}
		}
		if !shown {
			elsewhere = append(elsewhere, a)
		}
	}
	if len(elsewhere) > 0 {
		if err := w.putPost(ctx, thread.Post{Key: elsewherePost + run}, presence.AssumedElsewhere(elsewhere)); err != nil {
			return err
		}
	}
	w.noteShown(done, head)
	return nil
}

// showOnLine comments once on the line of an assumption. It returns false if the pull request does not show the line.
func (w *writer) showOnLine(ctx context.Context, run, head string, a presence.Assumption) (shown bool, err error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", a.Path, a.Line, a.Note))
	key := fmt.Sprintf("%s%s:%x", assumedPosts, run, sum[:8])
	if p := w.posts[key]; p.Comment != 0 || p.Settled {
		return p.Comment != 0, nil
	}
	var lines []forge.ReviewComment
	if _, begun := w.posts[key]; begun {
		if lines, err = w.client.ReviewComments(ctx, w.Repo, w.Number); err != nil {
			return false, err
		}
	}
	found, err := w.findOwn(ctx, thread.Post{Key: key}, lines)
	if err != nil {
		return false, err
	}
	if found == 0 {
		c, err := w.client.CommentOnLine(ctx, w.Repo, w.Number, forge.Line{SHA: head, Path: a.Path, Line: a.Line}, w.Marker(key).Add(presence.Assumed(a)))
		if refused, ok := errors.AsType[*forge.Problem](err); ok && refused.Final() {
			return false, w.recordPost(ctx, thread.Post{Key: key, Settled: true})
		}
		if err != nil {
			return false, err
		}
		found = c.ID
	}
	return true, w.recordPost(ctx, thread.Post{Key: key, Comment: found})
}
