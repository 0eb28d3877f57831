package dialogue

import (
	"context"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/forge/presence"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// labelPost is the key of the record of the label that was set last.
const labelPost = "label"

// showLabel shows a status as a label, if the settings ask for it. Labels decide nothing: one that a person sets
// stays until the state changes, and is then replaced. Labels without the prefix of lattice are not touched.
func (w *writer) showLabel(ctx context.Context, status lattice.RunStatus) error {
	want := presence.Label(status)
	if !w.Hosts[w.Host].Labels || w.posts[labelPost].Final == want {
		return nil
	}
	issue, err := w.client.Issue(ctx, w.Repo, w.Number)
	if err != nil {
		return err
	}
	for _, name := range issue.Labels {
		if strings.HasPrefix(name, presence.LabelPrefix) && name != want {
			if err := w.client.RemoveLabel(ctx, w.Repo, w.Number, name); err != nil {
				return err
			}
		}
	}
	if !slices.Contains(issue.Labels, want) {
		if err := w.client.AddLabels(ctx, w.Repo, w.Number, []string{want}); err != nil {
			return err
		}
	}
	return w.recordPost(ctx, post{Post: labelPost, Final: want})
}
