package inbox

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/store"
)

// longReview is a code host with one comment and one review, both with the same text.
type longReview struct {
	comments
	text string
	at   time.Time
}

func (c *longReview) IssuesSince(context.Context, forge.Path, time.Time) ([]forge.Issue, error) {
	return []forge.Issue{{Number: 7, Pull: true, Updated: c.at}}, nil
}

func (c *longReview) Pull(context.Context, forge.Path, int64) (forge.PullRequest, error) {
	return forge.PullRequest{}, nil
}

func (c *longReview) Reviews(context.Context, forge.Path, int64) ([]forge.Review, error) {
	return []forge.Review{{ID: 3, Body: c.text, Submitted: c.at, State: forge.Approved}}, nil
}

// TestPollBoundsTexts checks that a polled text is cut like the text of a delivery.
func TestPollBoundsTexts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		kept int
		cut  bool
	}{
		"short":              {"hello", 5, false},
		"as long as allowed": {strings.Repeat("a", 64<<10), 64 << 10, false},
		"long":               {"hello\n" + strings.Repeat("a", 1<<20), len("hello\n"), true},
		"a long line":        {"/lattice approve " + strings.Repeat("a", 64<<10), 0, true},
	} {
		s, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		client := &longReview{text: tt.text, at: time.Now().Add(time.Hour)}
		client.all = []forge.Comment{{ID: 2, Number: 7, Body: tt.text, Created: client.at, Updated: client.at}}
		var handled []hook.Delivery
		in := New(map[string]Host{"main": {Client: func() (Client, error) { return client, nil }, Repositories: []forge.Path{{Owner: "acme", Name: "site"}}}},
			&govern.Ledger{Store: s}, func(_ context.Context, _ string, d hook.Delivery) (string, error) {
				handled = append(handled, d)
				return "done", nil
			}, zerolog.Nop())
		if err := errors.Join(in.Poll(t.Context(), "main"), in.HandleAll(t.Context(), "main")); err != nil || len(handled) != 2 {
			t.Fatalf("%s: %d are handled, %v", name, len(handled), err)
		}
		for _, d := range handled {
			if len(d.Text) != tt.kept || d.Cut != tt.cut {
				t.Errorf("%s: %d bytes of the %s are kept, cut is %v", name, len(d.Text), d.Kind, d.Cut)
			}
		}
	}
}

// comments is a code host with one repository that fails once, and one that has comments.
type comments struct {
	all   []forge.Comment
	since []time.Time
	fail  bool
}

func (c *comments) CommentsSince(_ context.Context, p forge.Path, since time.Time) ([]forge.Comment, error) {
	if c.fail {
		c.fail = false
		return nil, errors.New("the code host is away")
	}
	c.since = append(c.since, since)
	return slices.DeleteFunc(slices.Clone(c.all), func(c forge.Comment) bool { return p.Name != "site" || c.Updated.Before(since) }), nil
}

func (c *comments) IssuesSince(context.Context, forge.Path, time.Time) ([]forge.Issue, error) {
	return nil, nil
}

func (c *comments) Pull(context.Context, forge.Path, int64) (forge.PullRequest, error) {
	return forge.PullRequest{}, errors.New("there is none")
}

func (c *comments) Reviews(context.Context, forge.Path, int64) ([]forge.Review, error) {
	return nil, errors.New("there are none")
}

// TestPoll asks for comments again and again, also after a failure: each new one is handled once, an old one never.
func TestPoll(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	now := time.Now()
	comment := func(id int64, created, updated time.Duration) forge.Comment {
		return forge.Comment{ID: id, Number: 7, Body: "hello", Created: now.Add(created), Updated: now.Add(updated), Author: forge.User{ID: 2, Login: "ann"}}
	}
	client := &comments{all: []forge.Comment{comment(1, -time.Hour, -time.Hour)}}
	var handled []hook.Delivery
	in := New(map[string]Host{"main": {Client: func() (Client, error) { return client, nil }, Poll: time.Hour, Repositories: []forge.Path{{Owner: "acme", Name: "site"}, {Owner: "acme", Name: "empty"}}}},
		&govern.Ledger{Store: s}, func(_ context.Context, _ string, d hook.Delivery) (string, error) {
			handled = append(handled, d)
			return "done", nil
		}, zerolog.Nop())
	poll := func() {
		t.Helper()
		if err := in.Poll(t.Context(), "main"); err != nil {
			t.Error(err)
		}
		if err := in.HandleAll(t.Context(), "main"); err != nil {
			t.Error(err)
		}
	}
	poll()
	client.all = append(client.all, comment(2, time.Hour, time.Hour), comment(1, -time.Hour, 2*time.Hour))
	client.fail = true
	if err := in.Poll(t.Context(), "main"); err == nil {
		t.Error("the failure is lost")
	}
	poll()
	poll()
	client.all = append(client.all, comment(2, time.Hour, 3*time.Hour))
	poll()
	if len(handled) != 2 || handled[0].Item != 2 || handled[0].Action != hook.Created || handled[0].Sender.ID != 2 || handled[0].Repo.Name != "site" || handled[1].Action != hook.Edited {
		t.Errorf("handled %+v", handled)
	}
	if last := client.since[len(client.since)-2]; !last.Equal(now.Add(time.Hour - overlap).UTC()) {
		t.Errorf("comments since %v are asked for, not since the last one", last)
	}
}
