package runs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/dropin"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/leader/skillset"
	"github.com/spritekit/lattice/orchestrator/leader/views"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/exact"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Start checks a flow, records the run and drives it. It records nothing if the flow is refused.
func (rn *Starter) Start(ctx context.Context, r api.RunRequest) (api.RunView, error) {
	if started, err := rn.Records.FindStarted(r.Key); err != nil || started != "" {
		if err != nil {
			return api.RunView{}, err
		}
		if rec, err := rn.Records.LoadBrief(started); err != nil {
			return api.RunView{}, err
		} else if r.Asked != "" && rec.Kept.Asked != "" && r.Asked != rec.Kept.Asked {
			return api.RunView{}, fault.Busy("run_exists", "the key belongs to %s, which another request started", started).WithHint("choose another key")
		}
		return rn.Drive(ctx, started, api.DriveRequest{Values: r.Values, Detach: r.Detach})
	}
	catalog, err := rn.newCatalog(ctx, r.Options)
	if err != nil {
		return api.RunView{}, err
	}
	flow, err := rn.compileFlow(r.Flow, catalog)
	if err != nil {
		return api.RunView{}, err
	}
	adjusted, err := rn.Environment.Adjust(ctx, flow.ExecIR, &r.Options)
	if err == nil && len(r.Environment) > 0 {
		flow, err = rn.compileFlow(adjusted, catalog)
	}
	if err != nil {
		return api.RunView{}, err
	}
	program := rn.Records.Share(flow.Program, flow.ExecIR, catalog.Pins())
	r.Flow = flow.ExecIR // the record holds the program that runs
	o := r.Options
	if len(o.Grants) == 0 {
		o.Grants = ir.DefaultGrants()
	}
	if len(r.Input) == 0 || string(r.Input) == "null" {
		r.Input = json.RawMessage("{}")
	}
	decoded, err := expr.Decode(r.Input)
	input, ok := decoded.(map[string]any)
	if err != nil || !ok {
		return api.RunView{}, fault.BadInput("bad_input", "the input of a flow is one JSON object")
	}
	if twice := exact.Duplicates(r.Input); len(twice) > 0 {
		return api.RunView{}, fault.BadInput("key_duplicate", "the input has members that stand twice in their object: %s", strings.Join(twice, ", ")).WithHint("keep one of the two")
	}
	if err := checkAdmission(flow, input, o); err != nil {
		return api.RunView{}, err
	}
	if o.Models, err = rn.Models.Admit(program, o); err != nil {
		return api.RunView{}, err
	}
	if err := rn.admitCopies(ctx, flow, o.Sprite); err != nil {
		return api.RunView{}, err
	}
	o.FlowName = cmp.Or(o.FlowName, program.Doc.ID)
	if err := cmp.Or(checkRepo(o.Repo), checkSiblings(o)); err != nil {
		return api.RunView{}, err
	}
	if err := rn.checkFrom(ctx, o); err != nil {
		return api.RunView{}, err
	}
	if err := rn.findNamed(ctx, program, o); err != nil {
		return api.RunView{}, err
	}
	o.Skills = catalog.Kept
	if r.Alone && o.WorkItem != "" {
		release, err := rn.claimWorkItem(ctx, o.FlowName, o.WorkItem)
		if err != nil {
			return api.RunView{}, err
		}
		defer release()
	}
	return rn.beginRun(ctx, program, r, history.Options{Options: o, Pinned: catalog.Pins(), Asked: r.Asked})
}

// compileFlow compiles a document. Requests with the same document share the flow, unless the skills of a sprite may belong to it.
func (rn *Starter) compileFlow(document json.RawMessage, c *skillset.Catalog) (*compile.Flow, error) {
	parse := func() (*compile.Flow, error) {
		flow, findings := compile.Parse(document, c.Lookup)
		switch {
		case c.Err != nil:
			return nil, c.Err
		case flow == nil:
			return nil, compile.RefuseFlow("flow_invalid", protocol.ExitBadInput, findings)
		}
		return flow, nil
	}
	if c.Ask != nil {
		return parse()
	}
	input := [][]byte{document}
	for _, skill := range c.Pins() {
		input = append(input, skill)
	}
	return rn.flows.Do(parse, input...)
}

// beginRun records an admitted run and drives it.
func (rn *Starter) beginRun(ctx context.Context, program *ir.Program, r api.RunRequest, o history.Options) (api.RunView, error) {
	id, secret, err := NewRun(r.Key)
	if err != nil {
		return api.RunView{}, err
	}
	o.WorkItem = cmp.Or(o.WorkItem, id)
	server, err := rn.Server()
	if err != nil {
		return api.RunView{}, err
	}
	if o.ApproveWorld, err = allowedWorld(program, o.ApproveWorld, policy.New(o.Repo, server...)); err != nil {
		return api.RunView{}, err
	}
	callsSkills := program.CallsSkills()
	if callsSkills {
		if err := rn.Preparer.CheckSkills(o.Options); err != nil {
			return api.RunView{}, err
		}
	}
	if callsSkills && o.Sprite == "" {
		o.Sprite, o.OwnSprite = history.OwnSprite(id), true
		if o.From == nil { // else its settings are those of the other sprite
			rn.completeOptions(&o.Options)
		}
	}
	if o.Image != "" && rn.Host == nil {
		return api.RunView{}, fault.Unsupported("images_are_local", "images are the embedded host's; remote sprites start from their service's").WithHint("leave the image out")
	}
	if o.OwnSprite && rn.Host != nil {
		if err := rn.Host.CheckIsolationFor(spec.Level(o.MinIsolation)); err != nil {
			return api.RunView{}, fault.Unsafe("isolation_unavailable", "%v", err).WithHint("lattice doctor names a remedy; or require less isolation")
		}
	}
	if err := rn.checkSpriteFree(o.Options); err != nil {
		return api.RunView{}, err
	}
	notice := rn.warnOfTests(ctx, program, r.Input, o.Options)
	if r.DryRun {
		notice = append(notice, rn.listMissingObjects(ctx, o.Options)...)
		return api.RunView{Flow: o.FlowName, Repo: o.Repo, Status: lattice.Pending, StartedWith: views.StartedBy(o.Options), Notice: notice}, nil
	}
	rn.Values.Keep(id, o.AgentEnv, o.Values)
	o.Values = api.Values{}
	if err := rn.Drives.AwaitHandover(ctx); err != nil {
		return api.RunView{}, err
	}
	notice = append(notice, rn.listMissingObjects(ctx, o.Options)...)
	for _, change := range o.Environment {
		notice = append(notice, "accepted change of the environment: "+change)
	}
	switch err := rn.recordRun(ctx, id, secret, program, r, o); {
	case errors.Is(err, store.ErrExists): // another request with the same key was faster
		return rn.Drive(ctx, id, api.DriveRequest{Values: r.Values, Detach: r.Detach})
	case err != nil:
		return api.RunView{}, err
	}
	// From here on the run exists: a leader that is ending returns a run that is not driven, so that it is not started twice.
	if err := rn.Drives.Drive(ctx, id); err != nil && !drive.ClosingNow(err) {
		return api.RunView{}, err
	}
	rn.Drives.Detach(id, r.Detach)
	v, err := rn.Views.Build(id)
	for _, skill := range program.UnplannedWorldCalls(o.ApproveWorld) {
		notice = append(notice, fmt.Sprintf("%s acts outside: the run waits for approval before it calls it; --approve-world %s or world.allow in policy.toml allows it from the start", skill, skill))
	}
	v.Notice = notice
	return v, err
}

// allowedWorld returns the skills that the run may call without asking: those of its request and those of the policy that
// the program calls. A skill that the policy denies is refused before the run begins.
func allowedWorld(program *ir.Program, requested []string, p policy.Policy) ([]string, error) {
	for _, name := range program.WorldCalls(nil) {
		switch v := p.World(name); {
		case v.Decision == lattice.Deny:
			return nil, fault.Denied("denied_by_policy", "%s", v.Reason).WithHint("the rule is %s", v.Rule)
		case v.Decision == lattice.Allow && !slices.Contains(requested, name):
			requested = append(slices.Clip(requested), name)
		}
	}
	return requested, nil
}

// listMissingObjects returns warnings about parts of the repository that the run will not have, such as submodules, as far as
// they are known before the repository is read.
func (rn *Starter) listMissingObjects(ctx context.Context, o api.Options) (lines []string) {
	if o.Repo == "" {
		return nil
	}
	warnings, err := rn.Git.Missing(ctx, o.Repo, o.Ref)
	if err != nil {
		return nil // reading it for the sprite fails as well, and says why
	}
	for _, w := range warnings {
		lines = append(lines, w.Message)
	}
	return lines
}

// recordRun records the run with its first fact.
func (rn *Starter) recordRun(ctx context.Context, id string, secret []byte, program *ir.Program, r api.RunRequest, o history.Options) error {
	now := time.Now()
	frozen, err := json.Marshal(startContext(id, o.Options, now))
	if err != nil {
		return fmt.Errorf("encode $ctx: %w", err)
	}
	input := r.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	o.Begin = lattice.RunStarted{
		RunID: id, WorkItem: o.WorkItem, Program: program.Digest, Sprite: o.Sprite, Input: input, Ctx: frozen, Grants: o.Grants,
		AskWorld: true, ApproveWorld: o.ApproveWorld, BelowExec: true,
	}
	if o.Sprite != "" {
		o.Begin.Disk = rn.Disk()
	}
	kept, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode options: %w", err)
	}
	if err := rn.Ledger.RecordRun(ctx, id, o.FlowName, o.Repo, o.ResumedFrom); err != nil {
		return err
	}
	if err := rn.Store.Create(ctx, store.RunRecord{
		ID: id, WorkItem: o.WorkItem, Created: now, Program: r.Flow, Secret: secret, Options: kept, Sprite: o.Sprite,
	}); err != nil {
		return fmt.Errorf("record run: %w", err)
	}
	return nil
}

// NewRun draws an id, unless the client has drawn it, and a secret. The secret never leaves the orchestrator.
func NewRun(key string) (id string, secret []byte, err error) {
	draw := make([]byte, 42)
	if _, err := rand.Read(draw); err != nil {
		return "", nil, fmt.Errorf("draw run id: %w", err)
	}
	return history.RunID(cmp.Or(key, strings.ToLower(base32.StdEncoding.EncodeToString(draw[:10])))), draw[10:], nil
}

// checkSpriteFree refuses a sprite that belongs to a run that has not ended (DESIGN 5).
func (rn *Starter) checkSpriteFree(o api.Options) error {
	if o.OwnSprite {
		return nil
	}
	return rn.States.CheckSpriteFree("", o.Sprite)
}

// completeOptions fills in the options of a run's own sprite that the request leaves open.
func (rn *Starter) completeOptions(o *api.Options) {
	if rn.Host == nil {
		return
	}
	o.Network = cmp.Or(o.Network, string(rn.Network.Preset))
	if o.HostPorts == nil {
		o.HostPorts = append([]uint16{}, rn.Network.HostPorts...)
	}
}

func (rn *Starter) newCatalog(ctx context.Context, o api.Options) (*skillset.Catalog, error) {
	c := &skillset.Catalog{Found: map[string]skillset.FoundSkill{}}
	if len(o.Skills) > 0 && o.Sprite != "" && rn.Host != nil {
		return nil, fault.BadInput("skills_of_sprite", "the skills of a sprite are chosen when it is made, and %s exists", o.Sprite).WithHint("leave --skill out where %s was made with the skills, which are found there; else leave --sprite out, or make another: lattice sprite create NAME --skill %s", o.Sprite, o.Skills[0])
	}
	var err error
	if c.Given, err = dropin.ReadAll(o.Skills); err != nil {
		return nil, err
	}
	for i, s := range c.Given {
		kept, err := dropin.Keep(rn.Home.DropIns(), s)
		if err != nil {
			return nil, err
		}
		// The copy counts: the folder may have changed since it was read.
		if c.Given[i], err = dropin.Read(kept); err != nil {
			return nil, err
		}
		c.Kept = append(c.Kept, kept)
	}
	if o.Sprite != "" {
		c.Ask = func(name string) (skillset.FoundSkill, error) {
			return skillset.FindSkill(ctx, rn.Client, o.Sprite, name)
		}
	}
	return c, nil
}

// admitCopies refuses a flow whose nodes need copies of sprites if the host does not copy sprites. It asks about an existing
// sprite if there is one, because a host may look for the sprite before it looks at the call.
func (rn *Starter) admitCopies(ctx context.Context, flow *compile.Flow, sprite string) error {
	nodes := flow.Program.CopiesSprites()
	if len(nodes) == 0 || rn.Host != nil {
		return nil
	}
	if sprite == "" {
		all, err := rn.Client.List(ctx, "")
		if err != nil {
			return fmt.Errorf("ask whether sprites can be copied: %w", err)
		}
		sprite = "lattice-none"
		if len(all) > 0 {
			sprite = all[0].Name
		}
	}
	err := rn.Copies.CheckSupport(ctx, sprite)
	if refused, ok := errors.AsType[*fault.Error](err); ok {
		var names []string
		for _, n := range nodes {
			names = append(names, n.ID)
		}
		refused.Fault.Message += fmt.Sprintf(`, which "sprite": "fork" asks for at %s`, strings.Join(names, ", "))
	}
	return err
}

// findNamed refuses a run whose sprite, repository, ref or copied files do not exist.
func (rn *Starter) findNamed(ctx context.Context, program *ir.Program, o api.Options) error {
	if o.Sprite != "" && program.CallsSkills() {
		_, err := rn.Client.Get(ctx, o.Sprite)
		if errors.Is(err, sprites.ErrNotFound) {
			return fault.NotFound("sprite_not_found", "there is no sprite %s", o.Sprite).WithHint("lattice sprite ls, or make it: lattice sprite create %s", o.Sprite)
		}
		if err != nil {
			return problem.SpriteProblem(err)
		}
	}
	if err := checkCopies(ctx, program, o); err != nil || o.Repo == "" {
		return err
	}
	return exitOfRefusal(rn.Git.Find(ctx, o.Repo, o.Ref))
}
