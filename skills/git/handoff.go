package git

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/skills/git/remote"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/text"
)

const (
	handoffFolder  = ".lattice/out"  // of a repository, where a handoff lies
	handoffFile    = "proposal.json" // in the folder
	handoffVersion = "bundle-v1"
	maxHandoff     = 1 << 20
	maxNotes       = 20 // commands that are named
)

// The states of a handoff.
const (
	handoffReady     = "ready"
	handoffNoChanges = "no_changes"
	handoffBlocked   = "blocked"
)

type handoffInput struct {
	on
	Dir string `json:"dir"`
}

type handoffData struct {
	about
	Status        string   `json:"status"`
	BlockedReason string   `json:"blocked_reason,omitempty"`
	BaseBranch    string   `json:"base_branch,omitempty"`
	Branch        string   `json:"branch,omitempty"`
	Head          string   `json:"head,omitempty"`
	Title         string   `json:"title,omitempty"`
	Body          string   `json:"body,omitempty"`
	Summary       string   `json:"summary,omitempty"`
	Labels        []string `json:"labels"`
}

// handoff is a proposal.json. Members that are not named here are for people.
type handoff struct {
	Version       string `json:"protocol_version"`
	Status        string `json:"status"`
	BlockedReason string `json:"blocked_reason"`
	BaseBranch    string `json:"base_branch"`
	WorkBranch    string `json:"work_branch"`
	BundlePath    string `json:"bundle_path"`
	Summary       string `json:"summary"`
	PR            struct {
		Title  string   `json:"title"`
		Body   string   `json:"body"`
		Labels []string `json:"labels"`
	} `json:"pr"`
	Commands []struct {
		Cmd  string `json:"cmd"`
		Exit int    `json:"exit"`
	} `json:"commands"`
	Flags map[string]bool `json:"flags"`
}

// Handoff is git.handoff: it checks the handoff that a program left and fetches its commits into a branch.
func (f family) Handoff(ctx context.Context, c *skill.Call, in handoffInput) (*handoffData, error) {
	dir := cmp.Or(in.Dir, path.Join(cmp.Or(in.Repo, defaultRepo), handoffFolder))
	h, err := readHandoff(c, dir)
	if err != nil {
		return nil, err
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	data := handoffData{about: r.describe(), Status: h.Status, BlockedReason: h.BlockedReason, Title: text.Line(h.PR.Title), Body: h.PR.Body, Summary: h.Summary, Labels: append([]string{}, h.PR.Labels...)}
	if err := h.report(c); err != nil {
		return nil, err
	}
	if h.Status != handoffReady {
		return &data, nil
	}
	// The path in the proposal is one of another folder; only the name of the file counts.
	from, err := remote.LocalSource(c, path.Join(dir, path.Base(h.BundlePath)))
	if err != nil {
		return nil, invalidHandoff("bundle_path: %v", err)
	}
	if !from.Bundle {
		return nil, invalidHandoff("bundle_path is not a file")
	}
	data.BaseBranch, data.Branch = h.BaseBranch, h.WorkBranch
	if _, err := r.Fetch(ctx, engine.FetchSpec{Remote: originName, From: from, Refspecs: []string{"+HEAD:refs/heads/" + h.WorkBranch}, Follow: reportProgress(c)}); err != nil {
		return nil, err
	}
	found, err := r.Resolve(ctx, "refs/heads/"+h.WorkBranch)
	data.Head = found.Commit
	return &data, err
}

// readHandoff reads and checks the proposal of a handoff.
func readHandoff(c *skill.Call, dir string) (h handoff, err error) {
	raw, err := c.Root.ReadFile(path.Join(dir, handoffFile), maxHandoff)
	if errors.Is(err, fs.ErrNotExist) {
		return h, fault.NotFound("handoff_missing", "there is no %s in %s", handoffFile, dir).WithHint("name the folder of the handoff in dir")
	}
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return h, invalidHandoff("%v", err)
	}
	return h, h.check()
}

// check returns an error if a required member is missing or wrong.
func (h handoff) check() error {
	switch {
	case h.Version != handoffVersion:
		return invalidHandoff("protocol_version is %.40q, not %s", h.Version, handoffVersion)
	case !slices.Contains([]string{handoffReady, handoffNoChanges, handoffBlocked}, h.Status):
		return invalidHandoff("status is %.40q, not %s, %s or %s", h.Status, handoffReady, handoffNoChanges, handoffBlocked)
	case h.Status != handoffReady:
		return nil
	case h.BaseBranch == "" || h.WorkBranch == "" || h.BundlePath == "":
		return invalidHandoff("base_branch, work_branch and bundle_path are required")
	}
	return errors.Join(guard.CheckRef(h.BaseBranch, "/base_branch"), guard.CheckRef(h.WorkBranch, "/work_branch"))
}

// report tells a person what to know before the commits are pushed.
func (h handoff) report(c *skill.Call) error {
	var notes []string
	for _, command := range h.Commands {
		if command.Exit != 0 && len(notes) < maxNotes {
			notes = append(notes, fmt.Sprintf("the program says that %.200q ended with %d", command.Cmd, command.Exit))
		}
	}
	for _, name := range []string{"touches_migrations", "touches_deps", "touches_auth", "touches_secrets", "migrations", "deps", "auth", "secrets"} {
		if h.Flags[name] {
			notes = append(notes, "the program says that the change has the flag "+name)
		}
	}
	for _, note := range notes {
		if err := c.Emit(protocol.Info{Message: note, Kind: "note"}); err != nil {
			return err
		}
	}
	return nil
}

func invalidHandoff(format string, a ...any) error {
	return fault.Failed("handoff_invalid", "the handoff cannot be imported: "+format, a...).WithHint("a handoff is %s of the version %s with a bundle beside it", handoffFile, handoffVersion)
}
