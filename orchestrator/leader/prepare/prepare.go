// Package prepare makes sprites ready for runs: sprite, repository, task.json, answers and skills. Start with Preparer, which
// is the engine's driver.Preparer and driver.Forker.
package prepare

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
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/retention"
	"github.com/spritekit/lattice/orchestrator/leader/skillset"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Preparer makes sprites ready for runs: it is the engine.Preparer and the engine.Forker, and equips remote sprites with
// skills. It holds no state of its own.
type Preparer struct {
	Home    home.Home
	Client  *sprites.Client
	Session interface {
		Equip(ctx context.Context, sprite string) error
	}
	Git     *worktree.Git
	Host    *host.Host // nil with a remote Sprites API
	Records *history.Records
	Copies  *retention.Copies
	Outputs *history.Outputs
	// name and email are those of commits where neither the repository nor git's settings name an author.
	Name, Email string
	// spritekit, self and path say where to look for the spritekit of a remote sprite; see skillset.FindSpritekitFor.
	Spritekit, Self, Path string
	Warn                  func(string) // tells the person at the terminal something that does not stop the run
	// Why no skill may run, and why sprites have no skills but those that their run brings; nil otherwise.
	NoSkills, NoSpritekit error
}

// Prepare makes the main sprite of a run (driver.Preparer), with the bundle of the repository and task.json. It is idempotent:
// after a crash it reads the repository again.
func (p *Preparer) Prepare(ctx context.Context, run, sprite string) (map[string]any, error) {
	rec, err := p.Records.Load(run)
	if err != nil {
		return nil, err
	}
	if err := p.CheckSkills(rec.Kept.Options); err != nil {
		return nil, err
	}
	if err := p.ensureSprite(ctx, run, sprite, rec.Kept.Options); err != nil {
		return nil, err
	}
	if err := p.Session.Equip(ctx, sprite); err != nil {
		return nil, err
	}
	if err := p.sendSkills(ctx, sprite, rec.Kept.Skills); err != nil {
		return nil, err
	}
	members := map[string]any{"sprite": sprite}
	if rec.Kept.Repo != "" {
		repo, err := p.seed(ctx, run, sprite, rec.Kept.Options)
		if err != nil {
			return nil, err
		}
		members["repo"] = repo
	}
	if len(rec.Kept.Siblings) > 0 {
		if members["siblings"], err = p.seedSiblings(ctx, run, sprite, rec.Kept.Siblings); err != nil {
			return nil, err
		}
	}
	if err := p.sendCopies(ctx, sprite, rec.Kept.Copies); err != nil {
		return nil, err
	}
	task := protocol.Task{RunID: run, Goal: rec.Kept.Goal, Repo: remote.StripCredentials(rec.Kept.Repo), Constraints: rec.Kept.Constraints, Acceptance: rec.Kept.Acceptance}
	if err := p.writeAnswers(ctx, sprite, rec.Kept, &task); err != nil {
		return nil, err
	}
	task.Goal = cmp.Or(task.Goal, "run flow "+rec.Kept.FlowName)
	data, err := json.Marshal(task)
	if err != nil {
		return nil, fmt.Errorf("encode task.json: %w", err)
	}
	if err := p.Client.WriteFile(ctx, sprite, "/workspace/"+protocol.TaskFile, bytes.NewReader(data), 0o644); err != nil {
		return nil, fmt.Errorf("write task.json: %w", err)
	}
	return members, nil
}

func (p *Preparer) ensureSprite(ctx context.Context, run, name string, o api.Options) error {
	if from := o.From; from != nil {
		if err := p.Copies.Ensure(ctx, history.LabelOf(run), lattice.Pair{Sprite: from.Sprite, CheckpointID: from.Checkpoint}, name); err != nil {
			return err
		}
		if err := p.putOutboxAside(ctx, name, from.Sprite); err != nil {
			return err
		}
		return p.allowDomains(ctx, name, o.Domains)
	}
	_, err := p.Client.Get(ctx, name)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, sprites.ErrNotFound):
		return fmt.Errorf("look for sprite %s: %w", name, err)
	case !o.OwnSprite:
		return &lattice.Refusal{Fault: protocol.Fault{Code: "sprite_not_found", Message: "there is no sprite " + name, Hint: "lattice sprite create " + name}}
	}
	if _, err := p.Client.Create(ctx, sprites.Create{Name: name, Labels: []string{history.LabelOf(run)}, Tools: o.Tools, Skills: p.mountedSkills(o.Skills), Image: o.Image,
		Config: o.Limits, MinIsolation: o.MinIsolation, Network: o.Network, HostPorts: o.HostPorts, Spritekit: o.Spritekit}); err != nil {
		if sprites.Uncertain(err) { // it may have been made although the answer was lost
			if made, lookErr := p.Client.Get(ctx, name); lookErr == nil && slices.Contains(made.Labels, history.LabelOf(run)) {
				return nil
			}
		}
		if refused, ok := errors.AsType[*sprites.APIError](err); ok && (refused.Status == http.StatusBadRequest || refused.Code == "image_not_found" || refused.Code == "isolation_unavailable") {
			return &lattice.Refusal{Fault: protocol.Fault{Code: "sprite_refused", Message: err.Error()}}
		}
		return fmt.Errorf("create sprite %s: %w", name, err)
	}
	return p.allowDomains(ctx, name, o.Domains)
}

// allowDomains adds names to what a new sprite may reach.
func (p *Preparer) allowDomains(ctx context.Context, name string, domains []string) error {
	if len(domains) == 0 {
		return nil
	}
	rules, err := p.Client.Policies().Network(ctx, name)
	if err != nil {
		return err
	}
	for _, domain := range domains {
		rules.Rules = append(rules.Rules, sprites.NetworkRule{Domain: domain, Action: "allow"})
	}
	return p.Client.Policies().SetNetwork(ctx, name, rules)
}

// seed reads the repository outside, with the user's own git, and writes its bundle into the sprite. It returns $ctx.repo.
func (p *Preparer) seed(ctx context.Context, run, sprite string, o api.Options) (map[string]any, error) {
	if err := os.MkdirAll(p.Home.Run(run), 0o700); err != nil {
		return nil, fmt.Errorf("make run directory: %w", err)
	}
	bundle := filepath.Join(p.Home.Run(run), "repo.bundle")
	s, err := p.Git.Seed(ctx, o.Repo, worktree.SeedOptions{Ref: o.Ref, IncludeUncommitted: o.IncludeUncommitted}, bundle)
	if err != nil {
		return nil, err
	}
	for _, warning := range s.Warnings {
		fmt.Fprintln(p.Outputs.Open(run, ""), warning.Message)
		if !s.Local { // Start warned about a local one
			p.Warn(warning.Message)
		}
	}
	if s.GoModule && p.Host != nil {
		p.Host.WarmGoSoon() // the first test in each sprite would compile the standard library otherwise
	}
	if err := p.sendFile(ctx, sprite, bundle, "/workspace/"+protocol.SeedFile); err != nil {
		return nil, err
	}
	if s.Dirty && !o.IncludeUncommitted {
		p.Warn("the repository has uncommitted changes, which the run does not see; --include-uncommitted takes them along")
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
	} else if p.Name != "" {
		repo["author"] = map[string]any{"name": p.Name, "email": p.Email}
	}
	return repo, nil
}

// sendFile writes a file of this machine into a sprite.
func (p *Preparer) sendFile(ctx context.Context, sprite, from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("read repository bundle: %w", err)
	}
	defer f.Close()
	if err := p.Client.WriteFile(ctx, sprite, to, f, 0o644); err != nil {
		return fmt.Errorf("seed sprite %s: %w", sprite, err)
	}
	return nil
}

// seedSiblings reads the repositories next to the run's own as seed does, and returns $ctx.siblings.
func (p *Preparer) seedSiblings(ctx context.Context, run, sprite string, list []string) ([]any, error) {
	if err := os.MkdirAll(p.Home.Run(run), 0o700); err != nil {
		return nil, fmt.Errorf("make run directory: %w", err)
	}
	siblings := []any{}
	for _, given := range list {
		repo, ref := remote.SplitRef(given)
		name := remote.NameOf(repo)
		bundle := filepath.Join(p.Home.Run(run), "sibling.bundle")
		s, err := p.Git.Seed(ctx, repo, worktree.SeedOptions{Ref: ref}, bundle)
		if err != nil {
			return nil, err
		}
		to := path.Dir(protocol.SeedFile) + "/siblings/" + name + ".bundle"
		if err := errors.Join(p.sendFile(ctx, sprite, bundle, "/workspace/"+to), os.Remove(bundle)); err != nil {
			return nil, err
		}
		siblings = append(siblings, map[string]any{
			"name": name, "bundle": "/workspace/" + to, "path": name, "remote_url": s.RemoteURL, "branch": s.Branch, "head": s.Head, "target": remote.StripCredentials(repo),
		})
	}
	return siblings, nil
}

// Fork makes a copy of a sprite ready (driver.Forker): the main sprite of a forked run, without the other run's outbox and
// with a task.json of its own, or the sprite of an item of a MAP.
func (p *Preparer) Fork(ctx context.Context, run string, from lattice.Pair, to string) (map[string]any, error) {
	rec, err := p.Records.Load(run)
	if err != nil {
		return nil, err
	}
	if err := p.CheckSkills(rec.Kept.Options); err != nil {
		return nil, err
	}
	label := history.LabelOf(run)
	if to != rec.Sprite {
		label = retention.CopyLabel(run)
	}
	if err := p.Copies.Ensure(ctx, label, from, to); err != nil {
		return nil, err
	}
	if err := p.Session.Equip(ctx, to); err != nil {
		return nil, err
	}
	if err := p.putOutboxAside(ctx, to, from.Sprite); err != nil {
		return nil, err
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
	if err := json.Unmarshal(rec.Kept.Fork.State, &then); err != nil {
		return nil, fmt.Errorf("read the state of run %s: %w", rec.Kept.Fork.From, err)
	}
	if repo, ok := then.Ctx["repo"].(map[string]any); ok {
		repo = maps.Clone(repo)
		repo["push_branch"] = "lattice/" + run
		members["repo"] = repo
	}
	return members, nil
}

// putOutboxAside renames the outbox that a copy has of another sprite, whose events are not events of the copy.
func (p *Preparer) putOutboxAside(ctx context.Context, copied, from string) error {
	err := p.Client.Files().Rename(ctx, copied, "/workspace/"+protocol.OutboxFile, "/workspace/"+protocol.OutboxFile+"."+from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("put the outbox of %s aside: %w", from, err)
	}
	return nil
}

// maxTask bounds a task.json, which programs in the sprite may have written.
const maxTask = 1 << 20

// renameTask writes the id of the new run into task.json.
func (p *Preparer) renameTask(ctx context.Context, sprite, run string) error {
	path := "/workspace/" + protocol.TaskFile
	data, err := p.Client.ReadFile(ctx, sprite, path, maxTask)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read task.json: %w", err)
	}
	task, err := expr.Decode(data)
	members, ok := task.(map[string]any)
	if err != nil || !ok {
		return nil // a program in the sprite wrote it
	}
	members["run_id"] = run
	if data, err = expr.Marshal(members); err != nil {
		return fmt.Errorf("encode task.json: %w", err)
	}
	if err := p.Client.WriteFile(ctx, sprite, path, bytes.NewReader(data), 0o644); err != nil {
		return fmt.Errorf("write task.json: %w", err)
	}
	return nil
}

// Equip sees to a sprite of a remote host before its first skill call.
func (p *Preparer) Equip(ctx context.Context, sprite string) error {
	if p.Host != nil {
		return nil
	}
	return skillset.Equipment{Client: p.Client, Warn: p.Warn, Find: func(arch string) (string, error) {
		return skillset.FindSpritekitFor(p.findSpritekit(sprite), p.Self, p.Path, arch)
	}}.Equip(ctx, sprite)
}

// CheckSkills fails if the skills of a run may not run here.
func (p *Preparer) CheckSkills(o api.Options) error {
	if p.NoSkills == nil && o.Spritekit == "" {
		return p.NoSpritekit
	}
	return p.NoSkills
}

// findSpritekit returns the spritekit of a remote sprite: that of its run, else that of this process.
func (p *Preparer) findSpritekit(sprite string) string {
	rec, err := p.Records.Load(strings.Replace(sprite, "-", "_", 1)) // the opposite of ownSprite
	if err != nil || !rec.Kept.OwnSprite || rec.Sprite != sprite {
		return p.Spritekit
	}
	return cmp.Or(rec.Kept.Spritekit, p.Spritekit)
}

// sendSkills sends kept skills to a remote sprite, each whole or not at all.
func (p *Preparer) sendSkills(ctx context.Context, sprite string, kept []string) error {
	if p.Host != nil {
		return nil
	}
	for _, dir := range kept {
		if err := skillset.SendSkill(ctx, p.Client, sprite, dir); err != nil {
			return err
		}
	}
	return nil
}

// mountedSkills returns the folders that the embedded host shows a sprite. Remote sprites are sent them instead.
func (p *Preparer) mountedSkills(kept []string) []string {
	if p.Host == nil {
		return nil
	}
	return kept
}

// writeAnswers writes the answers of a run to answers.json in its sprite and to task. It removes those of an earlier run.
func (p *Preparer) writeAnswers(ctx context.Context, sprite string, o history.Options, task *protocol.Task) error {
	path := "/workspace/" + protocol.AnswersFile
	if len(o.Answers) == 0 {
		if o.OwnSprite {
			return nil
		}
		if err := p.Client.Files().Remove(ctx, sprite, path, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
	if err := p.Client.WriteFile(ctx, sprite, path, bytes.NewReader(data), 0o644); err != nil {
		return fmt.Errorf("write answers.json: %w", err)
	}
	return nil
}
