package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Prepare makes a run's main sprite ready (engine.Preparer): it exists, holds the repository's bundle and task.json.
// It is idempotent; the repository is read again when a crash cut it off, and what was recorded before counts.
func (l *Leader) Prepare(ctx context.Context, run, sprite string) (map[string]any, error) {
	rec, err := l.record(run)
	if err != nil {
		return nil, err
	}
	if err := l.skillsRefused(rec.kept.Options); err != nil {
		return nil, err
	}
	if err := l.ensureSprite(ctx, run, sprite, rec.kept.Options); err != nil {
		return nil, err
	}
	if err := l.session.Equip(ctx, sprite); err != nil {
		return nil, err
	}
	if err := l.bringSkills(ctx, sprite, rec.kept.Skills); err != nil {
		return nil, err
	}
	members := map[string]any{"sprite": sprite}
	if rec.kept.Repo != "" {
		repo, err := l.seed(ctx, run, sprite, rec.kept.Options)
		if err != nil {
			return nil, err
		}
		members["repo"] = repo
	}
	task := protocol.Task{RunID: run, Goal: rec.kept.Goal, Repo: worktree.StripCredentials(rec.kept.Repo), Constraints: rec.kept.Constraints, Acceptance: rec.kept.Acceptance}
	if err := l.writeAnswers(ctx, sprite, rec.kept, &task); err != nil {
		return nil, err
	}
	if task.Goal == "" {
		task.Goal = "run flow " + rec.kept.FlowName
	}
	data, err := json.Marshal(task)
	if err != nil {
		return nil, fmt.Errorf("encode task.json: %w", err)
	}
	if err := l.client.WriteFile(ctx, sprite, "/workspace/"+protocol.TaskFile, bytes.NewReader(data), 0o644); err != nil {
		return nil, fmt.Errorf("write task.json: %w", err)
	}
	return members, nil
}

// OwnerLabel and a run's id mark the sprite that was made for that run, so that it can be told from a user's own.
const OwnerLabel = "lattice-run:"

func ownerLabel(run string) string { return OwnerLabel + run }

func (l *Leader) ensureSprite(ctx context.Context, run, name string, o api.Options) error {
	_, err := l.client.Get(ctx, name)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, sprites.ErrNotFound):
		return fmt.Errorf("look for sprite %s: %w", name, err)
	case !o.OwnSprite:
		return &lattice.Refusal{Fault: protocol.Fault{Code: "sprite_not_found", Message: "there is no sprite " + name, Hint: "lattice sprite create " + name}}
	}
	if _, err := l.client.Create(ctx, sprites.Create{Name: name, Labels: []string{ownerLabel(run)}, Tools: o.Tools, Skills: l.shown(o.Skills), Image: o.Image,
		Config: o.Limits, MinIsolation: o.MinIsolation, Network: o.Network, HostPorts: o.HostPorts, Spritekit: o.Spritekit}); err != nil {
		if sprites.Uncertain(err) { // it may have been made although nobody said so
			if made, lookErr := l.client.Get(ctx, name); lookErr == nil && slices.Contains(made.Labels, ownerLabel(run)) {
				return nil
			}
		}
		var refused *sprites.APIError
		if errors.As(err, &refused) && (refused.Status == http.StatusBadRequest || refused.Code == "image_not_found" || refused.Code == "isolation_unavailable") {
			return &lattice.Refusal{Fault: protocol.Fault{Code: "sprite_refused", Message: err.Error()}}
		}
		return fmt.Errorf("create sprite %s: %w", name, err)
	}
	return nil
}

// seed reads the repository outside, with the user's own git, and puts its bundle into the sprite. What comes back is
// $ctx.repo.
func (l *Leader) seed(ctx context.Context, run, sprite string, o api.Options) (map[string]any, error) {
	if err := os.MkdirAll(l.home.Run(run), 0o700); err != nil {
		return nil, fmt.Errorf("make run directory: %w", err)
	}
	bundle := filepath.Join(l.home.Run(run), "repo.bundle")
	s, err := l.git.Seed(ctx, o.Repo, worktree.SeedOptions{Ref: o.Ref, IncludeUncommitted: o.IncludeUncommitted}, bundle)
	if err != nil {
		return nil, err
	}
	for _, warning := range s.Warnings {
		fmt.Fprintln(l.output(run), warning.Message)
		if !s.Local { // of a local one Start told
			l.cfg.Warn(warning.Message)
		}
	}
	if s.GoModule && l.host != nil {
		l.host.WarmGoSoon() // the first test in each sprite would compile the standard library otherwise
	}
	f, err := os.Open(bundle)
	if err != nil {
		return nil, fmt.Errorf("read repository bundle: %w", err)
	}
	defer f.Close()
	if err := l.client.WriteFile(ctx, sprite, "/workspace/"+protocol.SeedFile, f, 0o644); err != nil {
		return nil, fmt.Errorf("seed sprite %s: %w", sprite, err)
	}
	if s.Dirty && !o.IncludeUncommitted {
		l.cfg.Warn("the repository has uncommitted changes, which the run does not see; --include-uncommitted takes them along")
	}
	repo := map[string]any{
		"bundle": "/workspace/" + protocol.SeedFile, "path": "repo", "remote_url": s.RemoteURL, "branch": s.Branch,
		"head": s.BaseHead, "seed_head": s.Head, "default_branch": s.DefaultBranch, "local": s.Local,
		"push_branch": "lattice/" + run,
	}
	if name, email := s.AuthorName, s.AuthorEmail; name != "" && email != "" {
		repo["author"] = map[string]any{"name": name, "email": email}
	} else if l.cfg.Name != "" {
		repo["author"] = map[string]any{"name": l.cfg.Name, "email": l.cfg.Email}
	}
	return repo, nil
}
