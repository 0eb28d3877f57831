package action

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spritekit/lattice/orchestrator/secret"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// maxHits is how many places of possible secrets are named.
const maxHits = 5

// reviewSecrets returns a Request.Review that searches a push for secrets and invisible characters. A known secret is a
// refusal; text in the form of a credential, or with invisible characters, is a warning, which the approval binds with the
// rest. The review sets ask if the name of a file or the message of a commit has invisible characters.
func reviewSecrets(known *secret.Known, hidden *invisible, ask *bool) func(context.Context, worktree.Content) ([]string, error) {
	return func(ctx context.Context, c worktree.Content) ([]string, error) {
		err := c.Objects(ctx, func(path string, content io.Reader) error {
			if path == "" { // a commit, or the tree of one
				head, err := io.ReadAll(io.LimitReader(content, maxMessage))
				if err != nil {
					return err
				}
				if bytes.HasPrefix(head, []byte("tree ")) {
					if err := checkClosing(string(head), "a message of a commit"); err != nil {
						return err
					}
					*ask = hidden.lookIn("a message of a commit", string(head)) || *ask
				}
				content = io.MultiReader(bytes.NewReader(head), content)
			}
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
		for _, change := range c.Changes {
			*ask = hidden.lookInName(change.Path) || *ask
		}
		warnings, err := reviewAdded(ctx, c, hidden)
		return append(hidden.warnings(), warnings...), err
	}
}

// maxMessage is how much of a commit is searched for closing keywords, in bytes.
const maxMessage = 1 << 20

// closing matches the words by which code hosts close an issue of another repository when a text reaches them.
var closing = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b:?\s+(?:[\w.-]+/[\w.-]+#\d+|https?://\S+/(?:issues|pull|pulls|merge_requests)/\d+)`)
})

// checkClosing refuses text that would close an issue of another repository.
func checkClosing(text, place string) error {
	if found := closing().FindString(text); found != "" {
		return newRefusal("foreign_issue", "name the issue without a word such as closes or fixes before it", "%s would close an issue of another repository: %q", place, worktree.DisplayName(found))
	}
	return nil
}

func secretInChange(name, place string) error {
	return newRefusal("secret_in_change", "remove it from every commit of the change, and renew the credential if others may have seen it",
		"the change holds the value of %.64s, in %s", name, place)
}

// reviewAdded returns the places of text in the form of a credential, without the text, and notes invisible characters.
func reviewAdded(ctx context.Context, c worktree.Content, hidden *invisible) ([]string, error) {
	added, cut, err := c.Added(ctx)
	if err != nil {
		return nil, err
	}
	var places, warnings []string
	for _, a := range added {
		hidden.lookInAdded(a)
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
