package action

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/secret"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// maxHits is how many places of possible secrets are named.
const maxHits = 5

// reviewSecrets returns a Request.Review that searches a push for secrets. A known secret is a refusal; text in the form of a
// credential is a warning, which the approval binds with the rest.
func reviewSecrets(known *secret.Known) func(context.Context, worktree.Content) ([]string, error) {
	return func(ctx context.Context, c worktree.Content) ([]string, error) {
		err := c.Objects(ctx, func(path string, content io.Reader) error {
			if name := known.FindIn(path); name != "" {
				return secretInChange(name, "the name of a file")
			}
			name, err := known.Find(content)
			switch {
			case err != nil || name == "":
				return err
			case path == "":
				return secretInChange(name, "a commit, or the names in its top folder")
			}
			return secretInChange(name, gitexec.Sanitize(path))
		})
		if err != nil {
			return nil, err
		}
		return possibleSecrets(ctx, c)
	}
}

func secretInChange(name, place string) error {
	return newRefusal("secret_in_change", "remove it from every commit of the change, and renew the credential if others may have seen it",
		"the change holds the value of %.64s, in %s", name, place)
}

// possibleSecrets returns the places of text in the form of a credential, without the text.
func possibleSecrets(ctx context.Context, c worktree.Content) ([]string, error) {
	added, cut, err := c.Added(ctx)
	if err != nil {
		return nil, err
	}
	var places, warnings []string
	for _, a := range added {
		hits, err := secret.Scan(a.Path, string(a.Text))
		if err != nil {
			return nil, err
		}
		for _, h := range hits {
			place := fmt.Sprintf("%s:%d (%s)", strings.Join(strings.Fields(gitexec.Sanitize(a.Path)), " "), a.Line(h.Line), h.Rule)
			if !slices.Contains(places, place) {
				places = append(places, place)
			}
		}
	}
	if n := len(places); n > 0 {
		more := ""
		if n > maxHits {
			more = fmt.Sprintf(", and %d more", n-maxHits)
		}
		warnings = append(warnings, fmt.Sprintf("possible secret (%d): %s%s", n, strings.Join(places[:min(n, maxHits)], ", "), more))
	}
	if cut {
		warnings = append(warnings, "the change is too long to be searched for secrets to its end")
	}
	return warnings, nil
}
