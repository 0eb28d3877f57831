package thread

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
)

// WaitPosts begin the keys of comments that are questions. A question has the digest of its wait in its key, so that a wait that
// changes gets another comment.
const WaitPosts = "wait:"

// Post is the body of an entry about a comment: first that it is about to be written, then its number.
type Post struct {
	Key     string `json:"post"`
	Comment int64  `json:"comment_id,omitempty"`
	// Prompt is the text of a question, which its comment keeps when it is settled. Settled says that this was done.
	Prompt  string `json:"prompt,omitempty"`
	Settled bool   `json:"settled,omitempty"`
	// Final is the state of the run in the last edit of a status comment.
	Final string `json:"final,omitempty"`
	// Intent is the one that asks whether to carry out the plan of a run, if there is one.
	Intent string `json:"intent_id,omitempty"`

	at time.Time // of the entry
}

// IsFresh reports whether the comment may have been written a moment ago without being listed yet.
func (p Post) IsFresh() bool { return time.Since(p.at) < forge.ListLag }

// ErrFresh is a reason to try again later.
var ErrFresh = errors.New("a comment was begun a moment ago, and the code host may list it late")

// Posts returns the subject of the entries about the comments of a thread.
func (t Thread) Posts() string { return "posts:" + t.String() }

// Marker returns the marker of the comment with a key.
func (t Thread) Marker(key string) forge.Marker { return forge.MarkerOf("post", t.String()+" "+key) }

// ReadPosts returns the known comments of a thread, by their keys.
func ReadPosts(facts *govern.Ledger, t Thread) (map[string]Post, error) {
	posts := map[string]Post{}
	err := facts.Store.Audit(t.Posts(), 0, func(e audit.Entry) error {
		var p Post
		if err := json.Unmarshal(e.Body, &p); err != nil {
			return fmt.Errorf("read audit entry %d: %w", e.Seq, err)
		}
		if p.Prompt == "" {
			p.Prompt = posts[p.Key].Prompt
		}
		p.at = e.At
		posts[p.Key] = p
		return nil
	})
	return posts, err
}

// The answers to a wait for a review. A HUMAN node that waits for one expects verdict and feedback, and may expect the context bundle; its
// inputs have a review with number and head.
const (
	ContextInput    = "context"
	VerdictApproved = "approved"
	VerdictChanges  = "changes"
)

// Awaited is the pull request that a wait for a review names. It comes from the sprite and is checked against the audit log.
type Awaited struct {
	Number int64  `json:"number"`
	Head   string `json:"head"`
	Said   string `json:"said"` // the agent's last words
}

// AwaitsReview returns the pull request whose review answers a wait.
func AwaitsReview(w lattice.Wait) (Awaited, bool) {
	var details struct {
		Review *Awaited `json:"review"`
	}
	_, verdict := w.Expected["verdict"]
	_, feedback := w.Expected["feedback"]
	least := 2
	if _, ok := w.Expected[ContextInput]; ok {
		least++
	}
	if w.Kind != lattice.WaitHuman || !verdict || !feedback || len(w.Expected) != least || json.Unmarshal(w.Details, &details) != nil || details.Review == nil {
		return Awaited{}, false
	}
	return *details.Review, true
}

// Settled is the body of the entry about the outcome of reviews.
type Settled struct {
	IDs      []string        `json:"delivery_ids"`
	Run      string          `json:"run_id,omitempty"`
	Wait     string          `json:"wait_id,omitempty"`
	Outcome  string          `json:"outcome"`
	Who      forge.User      `json:"reviewer,omitzero"`
	Checks   bool            `json:"checks,omitempty"` // no person decided: checks fail
	Head     string          `json:"head,omitempty"`   // of the branch at that time
	Verdict  string          `json:"verdict,omitempty"`
	Answer   json.RawMessage `json:"answer,omitempty"`
	Comments []int64         `json:"comment_ids,omitempty"` // that ask for changes
}

// Outcomes returns the subject of the entries about the outcomes of the reviews of a pull request.
func (t Thread) Outcomes() string { return strings.ToLower("reviews-settled:" + t.String()) }
