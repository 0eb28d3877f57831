package leader

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// preparer makes sprites ready for runs: it is the engine.Preparer and the engine.Forker, and equips remote sprites with
// skills. It holds no state of its own.
type preparer struct {
	home    Home
	client  *sprites.Client
	session interface {
		Equip(ctx context.Context, sprite string) error
	}
	git     *worktree.Git
	host    *host.Host // nil with a remote Sprites API
	records *records
	copies  *copies
	outputs *outputs
	// name and email are those of commits where neither the repository nor git's settings name an author.
	name, email string
	// spritekit, self and path say where to look for the spritekit of a remote sprite; see skillset.FindSpritekitFor.
	spritekit, self, path string
	warn                  func(string) // tells the person at the terminal something that does not stop the run
	// Why no skill may run, and why sprites have no skills but those that their run brings; nil otherwise.
	noSkills, noSpritekit error
}

// Prepare makes a run's main sprite ready (engine.Preparer): it exists, holds the repository's bundle and task.json.
// It is idempotent; the repository is read again when a crash cut it off, and what was recorded before counts.
func (p *preparer) Prepare(ctx context.Context, run, sprite string) (map[string]any, error) {
	rec, err := p.records.load(run)
	if err != nil {
		return nil, err
	}
	if err := p.checkSkills(rec.kept.Options); err != nil {
		return nil, err
	}
	if err := p.ensureSprite(ctx, run, sprite, rec.kept.Options); err != nil {
		return nil, err
	}
	if err := p.session.Equip(ctx, sprite); err != nil {
		return nil, err
	}
	if err := p.sendSkills(ctx, sprite, rec.kept.Skills); err != nil {
		return nil, err
	}
	members := map[string]any{"sprite": sprite}
	if rec.kept.Repo != "" {
		repo, err := p.seed(ctx, run, sprite, rec.kept.Options)
		if err != nil {
			return nil, err
		}
		members["repo"] = repo
	}
	task := protocol.Task{RunID: run, Goal: rec.kept.Goal, Repo: worktree.StripCredentials(rec.kept.Repo), Constraints: rec.kept.Constraints, Acceptance: rec.kept.Acceptance}
	if err := p.writeAnswers(ctx, sprite, rec.kept, &task); err != nil {
		return nil, err
	}
	if task.Goal == "" {
		task.Goal = "run flow " + rec.kept.FlowName
	}
	data, err := json.Marshal(task)
	if err != nil {
		return nil, fmt.Errorf("encode task.json: %w", err)
	}
	if err := p.client.WriteFile(ctx, sprite, "/workspace/"+protocol.TaskFile, bytes.NewReader(data), 0o644); err != nil {
		return nil, fmt.Errorf("write task.json: %w", err)
	}
	return members, nil
}

func (p *preparer) ensureSprite(ctx context.Context, run, name string, o api.Options) error {
	_, err := p.client.Get(ctx, name)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, sprites.ErrNotFound):
		return fmt.Errorf("look for sprite %s: %w", name, err)
	case !o.OwnSprite:
		return &lattice.Refusal{Fault: protocol.Fault{Code: "sprite_not_found", Message: "there is no sprite " + name, Hint: "lattice sprite create " + name}}
	}
	if _, err := p.client.Create(ctx, sprites.Create{Name: name, Labels: []string{ownerLabel(run)}, Tools: o.Tools, Skills: p.mountedSkills(o.Skills), Image: o.Image,
		Config: o.Limits, MinIsolation: o.MinIsolation, Network: o.Network, HostPorts: o.HostPorts, Spritekit: o.Spritekit}); err != nil {
		if sprites.Uncertain(err) { // it may have been made although nobody said so
			if made, lookErr := p.client.Get(ctx, name); lookErr == nil && slices.Contains(made.Labels, ownerLabel(run)) {
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
func (p *preparer) seed(ctx context.Context, run, sprite string, o api.Options) (map[string]any, error) {
	if err := os.MkdirAll(p.home.Run(run), 0o700); err != nil {
		return nil, fmt.Errorf("make run directory: %w", err)
	}
	bundle := filepath.Join(p.home.Run(run), "repo.bundle")
	s, err := p.git.Seed(ctx, o.Repo, worktree.SeedOptions{Ref: o.Ref, IncludeUncommitted: o.IncludeUncommitted}, bundle)
	if err != nil {
		return nil, err
	}
	for _, warning := range s.Warnings {
		fmt.Fprintln(p.outputs.open(run), warning.Message)
		if !s.Local { // of a local one Start told
			p.warn(warning.Message)
		}
	}
	if s.GoModule && p.host != nil {
		p.host.WarmGoSoon() // the first test in each sprite would compile the standard library otherwise
	}
	f, err := os.Open(bundle)
	if err != nil {
		return nil, fmt.Errorf("read repository bundle: %w", err)
	}
	defer f.Close()
	if err := p.client.WriteFile(ctx, sprite, "/workspace/"+protocol.SeedFile, f, 0o644); err != nil {
		return nil, fmt.Errorf("seed sprite %s: %w", sprite, err)
	}
	if s.Dirty && !o.IncludeUncommitted {
		p.warn("the repository has uncommitted changes, which the run does not see; --include-uncommitted takes them along")
	}
	repo := map[string]any{
		"bundle": "/workspace/" + protocol.SeedFile, "path": "repo", "remote_url": s.RemoteURL, "branch": s.Branch,
		"head": s.BaseHead, "seed_head": s.Head, "default_branch": s.DefaultBranch, "local": s.Local,
		"push_branch": "lattice/" + run,
	}
	if s.Policy != "" {
		if _, err := repositoryLayer(s.Policy); err != nil {
			return nil, err
		}
		repo["policy"] = s.Policy
	}
	if name, email := s.AuthorName, s.AuthorEmail; name != "" && email != "" {
		repo["author"] = map[string]any{"name": name, "email": email}
	} else if p.name != "" {
		repo["author"] = map[string]any{"name": p.name, "email": p.email}
	}
	return repo, nil
}

// Fork makes a copy of a sprite ready: that of a forked run, in which nothing speaks of the other run as if it were this
// one, or that of an item of a MAP.
func (p *preparer) Fork(ctx context.Context, run string, from lattice.Pair, to string) (map[string]any, error) {
	rec, err := p.records.load(run)
	if err != nil {
		return nil, err
	}
	if err := p.checkSkills(rec.kept.Options); err != nil {
		return nil, err
	}
	label := ownerLabel(run)
	if to != rec.Sprite {
		label = copyLabel(run)
	}
	if err := p.copies.ensure(ctx, label, from, to); err != nil {
		return nil, err
	}
	if err := p.session.Equip(ctx, to); err != nil {
		return nil, err
	}
	// What was told in the other sprite is not told again in this one.
	err = p.client.Rename(ctx, to, "/workspace/"+protocol.OutboxFile, "/workspace/"+protocol.OutboxFile+"."+from.Sprite)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("put the outbox of %s aside: %w", from.Sprite, err)
	}
	if to != rec.Sprite {
		return map[string]any{}, nil
	}
	if err := p.renameTask(ctx, to, run); err != nil {
		return nil, err
	}
	members := map[string]any{"sprite": to}
	var then struct {
		Ctx map[string]any `json:"ctx"`
	}
	if err := json.Unmarshal(rec.kept.Fork.State, &then); err != nil {
		return nil, fmt.Errorf("read the state of run %s: %w", rec.kept.Fork.From, err)
	}
	if repo, ok := then.Ctx["repo"].(map[string]any); ok {
		repo = maps.Clone(repo)
		repo["push_branch"] = "lattice/" + run
		members["repo"] = repo
	}
	return members, nil
}

// maxTask bounds a task.json, which what runs in the sprite may have written.
const maxTask = 1 << 20

// renameTask has task.json name the new run.
func (p *preparer) renameTask(ctx context.Context, sprite, run string) error {
	path := "/workspace/" + protocol.TaskFile
	data, err := p.client.ReadFile(ctx, sprite, path, maxTask)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read task.json: %w", err)
	}
	task, err := ir.Decode(data)
	members, ok := task.(map[string]any)
	if err != nil || !ok {
		return nil // what runs in a sprite may write it
	}
	members["run_id"] = run
	if data, err = ir.Marshal(members); err != nil {
		return fmt.Errorf("encode task.json: %w", err)
	}
	if err := p.client.WriteFile(ctx, sprite, path, bytes.NewReader(data), 0o644); err != nil {
		return fmt.Errorf("write task.json: %w", err)
	}
	return nil
}

// equip sees to a sprite of a remote host before its first skill call.
func (p *preparer) equip(ctx context.Context, sprite string) error {
	if p.host != nil {
		return nil
	}
	return Equipment{Client: p.client, Warn: p.warn, Find: func(arch string) (string, error) {
		return FindSpritekitFor(p.findSpritekit(sprite), p.self, p.path, arch)
	}}.Equip(ctx, sprite)
}

// checkSkills is why a run's skills may not run here, nil when they may.
func (p *preparer) checkSkills(o api.Options) error {
	if p.noSkills == nil && o.Spritekit == "" {
		return p.noSpritekit
	}
	return p.noSkills
}

// findSpritekit is the spritekit that a remote sprite gets: its run's, else the one that this process was told.
func (p *preparer) findSpritekit(sprite string) string {
	rec, err := p.records.load(strings.Replace(sprite, "-", "_", 1)) // the opposite of ownSprite
	if err != nil || !rec.kept.OwnSprite || rec.Sprite != sprite {
		return p.spritekit
	}
	return cmp.Or(rec.kept.Spritekit, p.spritekit)
}

// sendSkills sends kept skills to a remote sprite, each whole or not at all.
func (p *preparer) sendSkills(ctx context.Context, sprite string, kept []string) error {
	if p.host != nil {
		return nil
	}
	for _, dir := range kept {
		if err := SendSkill(ctx, p.client, sprite, dir); err != nil {
			return err
		}
	}
	return nil
}

// mountedSkills are the folders that the embedded host shows a sprite; a remote one is sent them.
func (p *preparer) mountedSkills(kept []string) []string {
	if p.host == nil {
		return nil
	}
	return kept
}

// writeAnswers puts answers.json into a run's sprite, and the same into task. A sprite that others used before must not
// hold theirs.
func (p *preparer) writeAnswers(ctx context.Context, sprite string, o options, task *protocol.Task) error {
	path := "/workspace/" + protocol.AnswersFile
	if len(o.Answers) == 0 {
		if o.OwnSprite {
			return nil
		}
		if err := p.client.Remove(ctx, sprite, path, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove answers.json of an earlier run: %w", err)
		}
		return nil
	}
	task.Answers = make(map[string]any, len(o.Answers))
	for name, answer := range o.Answers {
		task.Answers[name] = answer
	}
	data, err := json.Marshal(o.Answers)
	if err != nil {
		return fmt.Errorf("encode answers.json: %w", err)
	}
	if err := p.client.WriteFile(ctx, sprite, path, bytes.NewReader(data), 0o644); err != nil {
		return fmt.Errorf("write answers.json: %w", err)
	}
	return nil
}
