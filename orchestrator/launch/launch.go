// Package launch starts runs: it puts the flags and settings of a command together to the request that the leader gets. Begin
// with Options, which hold the flags, and Start. Package follow shows the run afterwards.
package launch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Options are the flags of a command that starts a run. AddFlags adds those that every such command has.
type Options struct {
	connect.Options
	Repo, Ref, Sprite, WorkItem, Goal, Acceptance string
	ApproveWorld                                  []string // skills
	Constraints                                   []string
	From                                          sources.Options
	DryRun                                        bool
	Key                                           string        // starts the run once
	Alone                                         bool          // refuse the run while another one of the flow is open for WorkItem
	Checkpoint                                    string        // SPRITE@CHECKPOINT with whose files a fresh sprite begins
	Siblings                                      []string      // REPO[@REF] to check out next to Repo for reading
	Conn                                          *connect.Conn // to use in place of a new one; its owner closes it

	fresh                       equip.Options
	limits                      equip.LimitOptions
	image                       string
	allow, agentEnv, tools      []string
	repos, copies               []string
	uncommitted, keep, keepSaid bool
}

// AddFlags adds the flags of a command that starts a run.
func (o *Options) AddFlags(env *setup.Env, cmd *cobra.Command) {
	o.fresh.AddFlags(cmd)
	o.AddDetachFlag(cmd)
	o.AddWaitFlag(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&o.repos, "repo", nil, "repository `URL|PATH` to copy into the sprite; it receives approved pushes; repeatable for flows that work on several")
	f.StringVar(&o.Ref, "ref", "", "branch, tag or commit of the first repository (default: the commit that is checked out there)")
	f.BoolVar(&o.uncommitted, "include-uncommitted", false, "include uncommitted changes of a local repository")
	f.StringArrayVar(&o.copies, "copy", nil, "file or folder `PATH` of this machine to copy into the workspace, under its own name; repeatable")
	f.StringVar(&o.Sprite, "sprite", "", "use this sprite instead of a fresh one")
	f.StringSliceVar(&o.allow, "allow", nil, "permissions that the run's calls may have (default: all but git:push, credential:fetch, net)")
	f.StringArrayVar(&o.agentEnv, "agent-env", nil, "pass environment variable `NAME` to the agent; its value is never stored")
	equip.AddImageFlag(env, cmd, &o.image)
	o.limits.AddFlags(cmd, "the new sprite's")
	equip.AddToolFlag(cmd, &o.tools)
	f.BoolVar(&o.DryRun, "dry-run", false, "check whether the run can start, and print with what; start nothing")
	f.BoolVar(&o.keep, "keep", false, "never remove the run's sprite")
	_ = cmd.RegisterFlagCompletionFunc("allow", complete.Permissions)
	_ = cmd.RegisterFlagCompletionFunc("sprite", complete.Sprites(env))
}

// CheckFlags refuses flags of cmd that contradict themselves. It is called before Start.
func (o *Options) CheckFlags(cmd *cobra.Command) error {
	if cmd.Flags().Changed("allow") && len(o.allow) == 0 {
		return equip.RefuseNoPermission()
	}
	if len(o.repos) > 0 {
		o.Repo, o.Siblings = o.repos[0], append(o.repos[1:], o.Siblings...)
	}
	o.keepSaid = cmd.Flags().Changed("keep")
	return nil
}

// withSettings takes values that no flag sets from the settings, and of their variables those that are set here.
func (o *Options) withSettings(env *setup.Env) {
	s := env.Settings.Run
	if len(o.allow) == 0 {
		o.allow = s.Allow
	}
	o.keep = o.keep || s.Keep && !o.keepSaid
	o.agentEnv = env.Agents().WithEnv(o.agentEnv)
}

// Started is a run that was started, or checked with --dry-run, and the connection to its leader.
type Started struct {
	*connect.Conn
	View   api.RunView
	Values api.Values
}

// Start starts a run of a flow, which is a file or the name of a built-in one. With a new connection it prints the leader's notices;
// the caller closes the connection.
func Start(ctx context.Context, env *setup.Env, o Options, flow string, input json.RawMessage) (*Started, error) {
	doc, name, err := sources.Lower(ctx, env, flow, o.From)
	if err != nil {
		return nil, err
	}
	o.withSettings(env)
	var routes []string
	o.agentEnv, routes = env.Agents().Preset(o.agentEnv, input)
	secrets, err := env.Values().Named(o.agentEnv)
	if err != nil {
		return nil, err
	}
	if o.Repo, err = absoluteRepo(o.Repo); err != nil {
		return nil, err
	}
	for i, given := range o.Siblings {
		repo, ref := remote.SplitRef(given)
		if repo, err = absoluteRepo(repo); err != nil {
			return nil, err
		}
		if o.Siblings[i] = repo; ref != "" {
			o.Siblings[i] += "@" + ref
		}
	}
	for i := range o.copies {
		if o.copies[i], err = filepath.Abs(o.copies[i]); err != nil {
			return nil, err
		}
	}
	tools, skills, err := o.checkEffects(env)
	if err != nil {
		return nil, err
	}
	c := o.Conn
	if c == nil {
		if c, err = connect.Dial(ctx, env, o.Options); err != nil {
			return nil, err
		}
	}
	s := &Started{Conn: c, Values: api.Values{Secrets: secrets}}
	key := ""
	if o.Key != "" {
		key = lattice.StartKey(o.Key)
	}
	if err := s.sendRequest(ctx, o, api.RunRequest{Flow: doc, Input: input, Key: key, Detach: o.Detach, DryRun: o.DryRun, Alone: o.Alone, Options: env.Models().AddTo(api.Options{
		FlowName: name, Tools: tools, Skills: skills, Routes: routes, Values: s.Values,
	})}); err != nil {
		if o.Conn == nil {
			c.Close()
		}
		return nil, err
	}
	return s, nil
}

// checkEffects refuses options that cannot take effect, and finds folders of this machine.
func (o *Options) checkEffects(env *setup.Env) (tools, skills []string, err error) {
	from, err := o.findFrom()
	if err != nil {
		return nil, nil, err
	}
	exists := o.Sprite // its settings are not those of flags
	if from != nil {
		exists = from.Sprite
	}
	if err := o.fresh.Check(env, exists); err != nil {
		return nil, nil, err
	}
	tools, err = equip.CheckSpriteTools(env, o.tools)
	if err != nil {
		return nil, nil, err
	}
	if len(tools) > 0 && exists != "" {
		return nil, nil, fault.BadInput("tools_of_sprite", "--tool takes effect when a sprite is created, and %s exists already", exists).WithHint("leave out --sprite, or create another sprite: lattice sprite create NAME --tool %s", tools[0])
	}
	if err := cmp.Or(o.limits.Check(), o.limits.OfSprite(exists)); err != nil {
		return nil, nil, err
	}
	if o.limits.Least != "" && env.RemoteSprites() != nil {
		return nil, nil, fault.Unsupported("isolation_is_local", "the isolation of remote sprites is up to their service").WithHint("leave out --min-isolation")
	}
	if err := equip.ImageOfSprite(o.image, exists); err != nil {
		return nil, nil, err
	}
	skills, err = equip.FindSkillFolders(env, o.From.Skills, exists)
	return tools, skills, err
}

// findFrom returns the checkpoint that --checkpoint names, nil without one.
func (o *Options) findFrom() (*api.SpriteCheckpoint, error) {
	if o.Checkpoint == "" {
		return nil, nil
	}
	sprite, id, ok := strings.Cut(o.Checkpoint, "@")
	switch {
	case !ok || sprite == "" || id == "":
		return nil, cli.UsageErrorf("--checkpoint is %q, not SPRITE@CHECKPOINT; lattice sprite checkpoints SPRITE lists them", o.Checkpoint)
	case o.Sprite != "":
		return nil, cli.UsageErrorf("--checkpoint and --sprite exclude each other: the run gets a copy of %s", sprite)
	}
	return &api.SpriteCheckpoint{Sprite: sprite, Checkpoint: id}, nil
}

// sendRequest completes the request, and sends it.
func (s *Started) sendRequest(ctx context.Context, o Options, req api.RunRequest) error {
	env := s.Env
	if o.Conn == nil {
		if err := s.Warn(ctx); err != nil {
			return err
		}
	}
	image, err := findImage(ctx, s.Conn, o)
	if err != nil {
		return err
	}
	if req.From, err = o.findFrom(); err != nil {
		return err
	}
	req.Siblings, req.Copies = o.Siblings, o.copies
	constraints, err := readConstraints(o.Constraints)
	if err != nil {
		return err
	}
	req.Repo, req.Ref, req.IncludeUncommitted, req.Sprite, req.Image = o.Repo, o.Ref, o.uncommitted, o.Sprite, image
	req.Limits, req.MinIsolation, req.Spritekit = o.limits.Config(), o.limits.Least.String(), o.fresh.Path()
	req.Grants, req.ApproveWorld, req.AgentEnv, req.Keep = o.allow, o.ApproveWorld, o.agentEnv, o.keep
	req.WorkItem, req.Goal, req.Constraints, req.Acceptance = o.WorkItem, o.Goal, constraints, o.Acceptance
	ownSprite := o.Sprite == "" && o.Checkpoint == "" && env.RemoteSprites() == nil // it gets these from flags and settings
	fromHere := ownSprite && (image == "" || image == sprites.NoImage)
	if ownSprite {
		o.limits.WithSettings(env.Settings)
		req.Limits, req.MinIsolation = o.limits.Config(), o.limits.Least.String()
		if fromHere {
			req.Tools = equip.ListRunTools(env, req.Tools)
		}
		req.Network, req.HostPorts = equip.ChooseReach(ctx, env, s.Client, o.fresh.Network)
	}
	if err := checkAgentVisible(env, req); err != nil {
		return err
	}
	var warnings []string
	if fromHere { // others may hold a login
		if problem, hint := env.Agents().MissingKey(req.Input, o.agentEnv, req.Routes); problem != "" {
			warnings = append(warnings, problem+"; "+hint)
		}
	}
	if s.View, err = s.Conn.Start(ctx, req); err != nil {
		return err
	}
	s.View.Notice = append(warnings, s.View.Notice...)
	for _, line := range s.View.Notice {
		fmt.Fprintf(env.Err, "lattice: %s\n", cli.Clean(line))
	}
	return nil
}

// findImage returns the image of the run's own sprite, "" where the run is given one.
func findImage(ctx context.Context, c *connect.Conn, o Options) (string, error) {
	if o.Sprite != "" || o.Checkpoint != "" {
		return "", nil
	}
	hc := api.HTTPClient(c.Socket)
	defer hc.CloseIdleConnections()
	return equip.FindStartImage(ctx, c.Env, sprites.New(api.Base, "", hc), o.image)
}

// absoluteRepo makes a path absolute, so that another process's leader means the same place.
func absoluteRepo(repo string) (string, error) {
	if repo == "" || strings.Contains(repo, "://") {
		return repo, nil
	}
	if _, err := os.Stat(repo); err != nil {
		if strings.Contains(repo, ":") { // git@host:path
			return repo, nil
		}
		return "", fault.NotFound("repo_not_found", "read repository: %v", err).WithHint("--repo takes a URL or the path of a git repository")
	}
	return filepath.Abs(repo)
}
