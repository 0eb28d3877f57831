package git

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	defaultCommits = 50
	maxCommits     = 1000
	maxSkip        = 1 << 30
)

type logInput struct {
	on
	Ref         string   `json:"ref"`
	Range       string   `json:"range"`
	Paths       []string `json:"paths"`
	MaxCount    int      `json:"max_count"`
	Skip        int      `json:"skip"`
	Cursor      string   `json:"cursor"`
	Since       string   `json:"since"`
	Until       string   `json:"until"`
	Author      string   `json:"author"`
	Grep        string   `json:"grep"`
	FirstParent bool     `json:"first_parent"`
	Format      string   `json:"format"`
	Stats       bool     `json:"stats"`
}

type logData struct {
	about
	Commits    []engine.Commit `json:"commits"`
	NextCursor string          `json:"next_cursor"`
}

// Log is git.log.
func (f family) Log(ctx context.Context, c *skill.Call, in logInput) (*logData, error) {
	spec, from, err := in.checkInput()
	if err != nil {
		return nil, err
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	page, err := r.Log(ctx, spec)
	if err != nil {
		return nil, err
	}
	data := logData{about: r.describe(), Commits: page.Commits}
	if page.More {
		if data.NextCursor, err = r.nextCursor(ctx, from, spec.Skip+len(page.Commits)); err != nil {
			return nil, err
		}
	}
	return &data, nil
}

// history is the start of a log: one revision, or the two sides of a range. The zero value is HEAD.
type history struct{ from, dots, to string }

func (h history) String() string { return h.from + h.dots + h.to }

// checkInput validates the input and returns the request to an engine.
func (in *logInput) checkInput() (spec engine.LogSpec, from history, err error) {
	if from, err = in.parseRevisions(); err != nil {
		return spec, from, err
	}
	if err := guard.CheckPaths(in.Paths); err != nil {
		return spec, from, err
	}
	in.MaxCount = cmp.Or(in.MaxCount, defaultCommits)
	switch in.Format = cmp.Or(in.Format, "short"); {
	case in.MaxCount < 1 || in.MaxCount > maxCommits:
		return spec, from, skill.BadInput("/max_count", "is not between 1 and %d", maxCommits)
	case in.Skip < 0 || in.Skip > maxSkip:
		return spec, from, skill.BadInput("/skip", "is not between 0 and %d", maxSkip)
	case in.Format != "short" && in.Format != "full":
		return spec, from, skill.BadInput("/format", "%q is not one of short, full", in.Format)
	}
	for pointer, text := range map[string]string{"/author": in.Author, "/grep": in.Grep} {
		if strings.ContainsFunc(text, unicode.IsControl) || len(text) > guard.MaxRevision {
			return spec, from, skill.BadInput(pointer, "must be one line of at most %d bytes", guard.MaxRevision)
		}
	}
	spec = engine.LogSpec{
		Paths: in.Paths, Max: in.MaxCount, Skip: in.Skip, Author: in.Author, Grep: in.Grep, FirstParent: in.FirstParent,
		Stats: in.Stats, Short: in.Format == "short",
	}
	if from != (history{}) {
		spec.Revisions = []string{from.String()}
	}
	if spec.Since, err = parseTime("/since", in.Since); err != nil {
		return spec, from, err
	}
	spec.Until, err = parseTime("/until", in.Until)
	return spec, from, err
}

// parseRevisions returns the start of the history. A cursor takes precedence over the other inputs, which callers repeat.
func (in *logInput) parseRevisions() (history, error) {
	switch {
	case in.Cursor != "":
		return in.parseCursor()
	case in.Ref != "" && in.Range != "":
		return history{}, skill.BadInput("/range", "cannot be used together with ref")
	case in.Range != "":
		from, dots, to, err := guard.CheckRange(in.Range, "/range")
		return history{from, dots, to}, err
	case in.Ref != "":
		return history{from: in.Ref}, guard.CheckRevision(in.Ref, "/ref")
	}
	return history{}, nil
}

// parseCursor reads the number of listed commits and the start of the history from a cursor.
func (in *logInput) parseCursor() (history, error) {
	skip, begin, ok := strings.Cut(in.Cursor, "~")
	var err error
	if in.Skip, err = strconv.Atoi(skip); !ok || err != nil {
		return history{}, skill.BadInput("/cursor", "is not a next_cursor of git.log")
	}
	if strings.Contains(begin, "..") {
		from, dots, to, err := guard.CheckRange(begin, "/cursor")
		return history{from, dots, to}, err
	}
	return history{from: begin}, guard.CheckRevision(begin, "/cursor")
}

// nextCursor returns a cursor after the first skip commits. It holds ids, because branches can move between calls.
func (r *repo) nextCursor(ctx context.Context, h history, skip int) (string, error) {
	h.from = cmp.Or(h.from, "HEAD")
	for _, side := range []*string{&h.from, &h.to} {
		if *side == "" || engine.IsCommitID(*side) {
			continue
		}
		object, err := r.Resolve(ctx, *side)
		if err != nil {
			return "", err
		}
		*side = object.Commit
	}
	return strconv.Itoa(skip) + "~" + h.String(), nil
}

// parseTime parses a time; "" is the zero time.
func parseTime(pointer, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Unix() < 0 {
		return time.Time{}, skill.BadInput(pointer, "%q is not an RFC 3339 time since 1970 such as 2026-01-31T12:00:00Z", text)
	}
	return t, nil
}
