package leader

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/access"
	"github.com/spritekit/lattice/orchestrator/leader/boards"
	"github.com/spritekit/lattice/orchestrator/leader/credentials"
	"github.com/spritekit/lattice/orchestrator/leader/disarm"
	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/leader/environment"
	"github.com/spritekit/lattice/orchestrator/leader/flows"
	"github.com/spritekit/lattice/orchestrator/leader/govern"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/intents"
	"github.com/spritekit/lattice/orchestrator/leader/prepare"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/leader/retention"
	"github.com/spritekit/lattice/orchestrator/leader/runs"
	"github.com/spritekit/lattice/orchestrator/leader/skillset"
	"github.com/spritekit/lattice/orchestrator/leader/spending"
	"github.com/spritekit/lattice/orchestrator/leader/storage"
	"github.com/spritekit/lattice/orchestrator/leader/travel"
	"github.com/spritekit/lattice/orchestrator/leader/upkeep"
	"github.com/spritekit/lattice/orchestrator/leader/views"
	"github.com/spritekit/lattice/orchestrator/modelroute"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Open opens the home. The caller holds its lock.
func Open(cfg Config) (*Leader, error) {
	cfg.setDefaults()
	l := &Leader{cfg: cfg, home: cfg.Home}
	l.models = &drive.ModelSet{Own: cfg.Models, Open: cfg.ModelsOf}
	l.drives = drive.NewDrives(cfg.Log, cfg.Serving, &drive.Values{Models: l.models})
	l.Succession = &drive.Succession{Drives: l.drives, Activity: l.drives.Activity, Logger: cfg.Log, Handed: make(chan struct{}), Ending: make(chan struct{})}
	l.quiesced = sync.OnceValue(l.endWork)
	if err := l.open(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Leader) open() (err error) {
	if l.cfg.ReadOnly != "" {
		return l.openReadOnly()
	}
	if err := storage.Sweep(l.home); err != nil {
		return problem.StoreProblem(err)
	}
	if l.store, err = store.OpenAs(cmp.Or(l.cfg.Store, l.home.Store()), l.cfg.Lead); err != nil {
		return problem.StoreProblem(err)
	}
	if l.git, err = worktree.New(worktree.Options{Env: l.cfg.Environ, Scratch: l.home.Scratch(), Mirrors: l.home.Mirrors(), Authorize: l.cfg.AuthorizeGit}); err != nil {
		return err
	}
	l.openAgents()
	var sprites http.Handler
	if l.client = l.cfg.Remote; l.client == nil {
		if sprites, err = l.openHost(); err != nil {
			return err
		}
	}
	l.composeParts(sprites)
	if l.cfg.Engine != nil {
		if l.endEngine, err = l.cfg.Engine.ServeInBackground(&drive.Scheduled{Drives: l.drives, Records: l.Records}); err != nil {
			return err
		}
	}
	l.notifier.start()
	if l.cfg.Serving {
		l.stop = followInBackground(l.Scheduler.Follow, l.Inbox.Follow, l.scribe.Follow, l.mirror.Follow, l.Reconciler.Follow)
	}
	return nil
}

// openAgents makes the routes by which agents reach models. The embedded host needs them when it is opened.
func (l *Leader) openAgents() {
	l.Records = &history.Records{Store: l.store}
	l.Ledger = &govern.Ledger{Store: l.store, Recorded: l.cfg.Recorded}
	l.disarm = &disarm.Notes{Facts: l.Ledger, Queue: l.store.QueueAudit, Logger: l.cfg.Log}
	l.Vault = &credentials.Vault{Facts: l.Ledger, Sources: l.cfg.Secrets, ResolveRun: l.Records.Resolve, OutputOf: func(run string) io.Writer { return l.Outputs.Open(run, "") }, Logger: l.cfg.Log}
	l.agents = &agents{vault: l.Vault, home: l.home, log: l.cfg.Log, records: l.Records, values: l.drives.Values, drives: l.drives, models: l.models,
		providers: l.cfg.Providers, environment: l.cfg.Environ, credentials: l.cfg.Credentials}
	if l.cfg.LogSecrets != nil {
		l.cfg.LogSecrets(l.agents.all.secrets)
	}
	l.agents.routes = modelroute.New(modelroute.Options{Upstream: l.agents.findUpstream, Record: l.agents.recordUse, Transport: l.cfg.Transport})
}

// composeParts connects the parts. Each part holds the parts that it needs; none holds the Leader.
func (l *Leader) composeParts(sprites http.Handler) {
	d, watchers, values, activity := l.drives, l.drives.Watchers, l.drives.Values, l.drives.Activity
	disk := func() string { // "" where nothing is known of it, as with a remote host
		if l.host == nil {
			return ""
		}
		return l.host.Disk()
	}
	l.agents.routed = l.host != nil
	l.Outputs = &history.Outputs{Home: l.home, Logger: l.cfg.Log, Records: l.Records, Watchers: watchers}
	states := &history.States{Store: l.store, Records: l.Records, Live: d, Disk: disk}
	copies := &retention.Copies{Client: l.client}
	preparer := &prepare.Preparer{Home: l.home, Client: l.client, Git: l.git, Host: l.host, Records: l.Records, Copies: copies, Outputs: l.Outputs, Name: l.cfg.Name, Email: l.cfg.Email, Spritekit: l.cfg.Spritekit, Self: l.cfg.Self, Path: l.cfg.Path, Warn: l.cfg.Warn, NoSkills: l.noSkills, NoSpritekit: l.noSpritekit}
	l.session = session.New(l.client, session.Options{Log: l.cfg.Log, Output: l.agents.redactOutput(l.disarm.Output(l.Outputs.Open)), Secrets: l.agents.environ, Leased: l.Vault.Env, Known: l.agents.listKnown, Issued: states.ListIssued, Equip: preparer.Equip})
	preparer.Session = l.session
	l.notifier = newNotifier(l.cfg.Notify, l.home, l.cfg.Log)
	l.notifier.known = l.agents.lastKnown
	rules := &prepare.Rules{Server: l.cfg.Policy, Records: l.Records, States: states, Git: l.git}
	l.Keeper = &spending.Keeper{Facts: l.Ledger, PolicyOf: rules.Of, Server: l.cfg.Policy, ResolveRun: l.Records.Resolve, Logger: l.cfg.Log, OptionsOf: func(id string) (string, history.Options, error) {
		rec, err := l.Records.LoadBrief(id)
		return rec.WorkItem, rec.Kept, err
	}}
	approvals := &govern.Approvals{Ledger: l.Ledger, PolicyOf: rules.Of, RepoOf: states.FindRepo}
	actor := action.New(action.Options{Files: l.client, Git: l.git, Dir: l.home.Bundles(), RepoOf: states.FindRepo, AgentEnv: l.Records.AgentEnv, Secrets: l.agents.secretValues, Notify: l.notifier.send, Credentials: l.Vault, Publisher: l.cfg.Publisher, PolicyOf: rules.Of, Before: l.Ledger.CountRequests, Planned: l.isPlanned, Statement: l.Records.FindStatement, Record: l.Ledger.RecordJudged})
	witness := govern.Witness{Fulfiller: actor, Ledger: l.Ledger}

	l.Artifacts = &retention.Artifacts{Home: l.home, Store: l.store, Client: l.client, Records: l.Records, Outputs: l.Outputs, Logger: l.cfg.Log}
	l.Views = &views.Views{Store: l.store, Records: l.Records, States: states, Drives: d, Watchers: watchers, Values: values, Copies: copies, Registry: l.Artifacts, Fleet: l.client, BudgetsOf: l.Keeper.RunBudgets, SpentOf: l.Keeper.Spent}
	l.Loops = &views.Loops{Views: l.Views}
	l.Pruner = &retention.Pruner{Home: l.home, Store: l.store, Client: l.client, Mirrors: l.git.Mirrors(), Records: l.Records, States: states, Views: l.Views, Copies: copies, Logger: l.cfg.Log}
	l.Register = &environment.Register{Facts: l.Ledger, ReadCI: l.readCI, AdmitPerson: approvals.AdmitPerson, ResolveRun: l.Records.Resolve, LoadRun: l.loadForProposal, OptionsOf: func(id string) (api.Options, error) {
		rec, err := l.Records.LoadBrief(id)
		return rec.Kept.Options, err
	}, OutputOf: func(run string) io.Writer { return l.Outputs.Open(run, "") }, Logger: l.cfg.Log,
		StartRun: func(ctx context.Context, r api.RunRequest) (api.RunView, error) { return l.Starter.Start(ctx, r) }}
	l.Starter = &runs.Starter{Environment: l.Register, Home: l.home, Store: l.store, Client: l.client, Host: l.host, Git: l.git, Disk: disk, Network: l.cfg.Network, Server: l.cfg.Policy, Ledger: l.Ledger, Records: l.Records, States: states, Views: l.Views, Drives: d, Values: values, Models: l.models, Preparer: preparer, Copies: copies}
	l.Travel = &travel.Travel{Store: l.store, Client: l.client, Session: l.session, Disk: disk, Records: l.Records, States: states, Views: l.Views, Drives: d, Values: values, Starter: l.Starter, Copies: copies, Pruner: l.Pruner}
	l.Shells = &travel.Shells{Reviewer: &travel.Reviewer{Store: l.store, Client: l.client, Git: l.git, Actor: actor, Views: l.Views, Travel: l.Travel}, Record: l.Ledger.Record}
	l.sandboxes = sandboxes{l.client, l.Ledger.Record}
	l.Decisions = &runs.Decisions{Client: l.client, Records: l.Records, States: states, Views: l.Views, Drives: d, Starter: l.Starter, Approvals: approvals}
	l.Notes = &runs.Notes{Store: l.store, Records: l.Records, Drives: d, Actor: witness, Approvals: approvals}
	l.Pipeline = &intents.Pipeline{Facts: l.Ledger, Executor: l, BaseOf: rules.Base}
	l.Gate = &access.Gate{Facts: l.Ledger, Now: time.Now}
	l.Scheduler = &intents.Scheduler{All: l.cfg.Schedules, Facts: l.Ledger, Create: l.Pipeline.CreateIntent, Outcome: l.Pipeline.Outcome, Wake: make(chan struct{}, 1), Logger: l.cfg.Log}
	l.Reconciler = &upkeep.Reconciler{Client: l.client, Facts: l.Ledger, Declared: l.cfg.Fleet, Every: l.cfg.FleetEvery, Logger: l.cfg.Log}
	l.composeForges()
	l.Boards = &boards.Boards{Folders: l.cfg.Boards, Facts: l.Ledger, Git: l.git, Home: string(l.home), Environ: l.cfg.Environ, Warn: func(text string) { l.cfg.Log.Warn().Msg(text) }}
	l.Flows = &flows.Flows{Config: l.cfg.Flows, Facts: l.Ledger, Policy: l.cfg.Policy, Begin: l.Starter.Start}
	l.Storage = &storage.Storage{Home: l.home, Store: l.store, Host: l.host, Remote: l.cfg.Remote != nil, Scratch: cmp.Or(l.cfg.ReadOnly, l.home.Scratch()), Version: l.cfg.Version}
	l.Succession.Client, l.Succession.Embedded = l.client, l.host != nil

	boundaries := &retention.Boundaries{Session: l.session, Client: l.client, States: states, Log: l.cfg.Log}
	var journal driver.Log = disarm.Log{Log: l.store, Notes: l.disarm}
	if l.cfg.WrapLog != nil {
		journal = l.cfg.WrapLog(journal)
	}
	l.Pruner.Forget = func(ctx context.Context, sprite string) {
		l.session.Forget(ctx, sprite)
		boundaries.DropCount(sprite)
	}
	d.Records, d.Hostless, d.Sessions, d.Superseded = l.Records, l.hostless, l.session, l.Ledger.IsSuperseded
	d.Recovery = &drive.Recovery{Client: l.client, Disk: disk, Records: l.Records, SettleTurn: l.Keeper.SettleTurn, Log: l.cfg.Log}
	journal = tellingLog{notifyingLog{credentials.Log{Log: journal, Vault: l.Vault}, l.notifier}, l.cfg.Log}
	var scheduler driver.Scheduler
	if l.cfg.Engine != nil {
		scheduler = l.cfg.Engine
	}
	d.Deps = func(id string) driver.Deps {
		return drive.WithClocks(driver.Deps{
			Scheduler: scheduler,
			Log:       runs.ActionLog{Log: environment.Log{Log: journal, Register: l.Register}, Outputs: l.Outputs}, Caller: retention.Turns{Caller: spending.Caller{Caller: l.session, Keeper: l.Keeper}, Boundaries: boundaries, Keep: l.cfg.KeepTurns}, Boundary: boundaries, Preparer: preparer, Forker: preparer, Actor: witness, Attester: &govern.Attester{Home: l.home, Ledger: l.Ledger, Remove: l.Pruner.RemoveCopy}, Model: drive.Asker{Models: func() (drive.Models, error) { return l.findModels(id) }},
			OnEntry: func(entries []lattice.Entry) { watchers.Notify(entries[0].Run) },
		})
	}
	d.Ended = func(id string, r *driver.Runner, status lattice.RunStatus) {
		addRun(l.cfg.Log.Info(), id).Str("status", string(status)).Msg("the run ended")
		if status == lattice.Succeeded || status == lattice.Canceled {
			l.Pruner.RemoveCopies(id, r)
		}
		l.agents.secretsOf.Delete(id)
		l.Keeper.CloseRun(context.Background(), id)
		l.settleIntent(id)
		l.sendTrace(id)
		l.Artifacts.Collect(id)
		if l.cfg.Serving && status == lattice.Failed { // elsewhere the command that follows the run does
			d.Go(func() { l.Register.VerifyAll(context.Background(), id) })
		}
		l.Pruner.PruneAfter(id)
	}
	if sprites != nil {
		sprites = l.Ledger.RecordCalls(sprites)
	} else {
		l.client.Record(l.Ledger.RecordCall)
	}
	l.handler = activity.CountRequests(caller.RecordProgram(l.Ledger.RecordWrites(api.Handler(l, sprites))))
}

// loadForProposal returns the facts about a run that a proposal needs.
func (l *Leader) loadForProposal(id string) (environment.Run, error) {
	rec, err := l.Records.Load(id)
	if err != nil {
		return environment.Run{}, err
	}
	r := environment.Run{ID: id, Repo: rec.Kept.Repo, Program: rec.Program, Input: rec.Kept.Begin.Input, Options: rec.Kept.Options}
	v, err := l.Views.Build(id)
	if err != nil {
		return r, err
	}
	if v.Error != nil {
		r.Failed = v.Error.Node
	}
	return r, nil
}

// findModels returns the models that a run asks, within its budgets; nil if there are none.
func (l *Leader) findModels(run string) (drive.Models, error) {
	models, err := l.models.Find(l.drives.ModelsOf(run))
	if err != nil || models == nil {
		return nil, err
	}
	return spending.Models{Models: models, Keeper: l.Keeper, Run: run}, nil
}

// openHost starts the embedded sprite host and a client that calls it in process.
func (l *Leader) openHost() (http.Handler, error) {
	skills := ""
	spritekit, err := skillset.FindSpritekit(l.cfg.Spritekit, l.cfg.Self, l.cfg.Path)
	switch {
	case err == nil:
		if skills, err = skillset.InstallSkills(l.home, spritekit); err != nil {
			return nil, err
		}
	case l.cfg.Spritekit != "":
		return nil, err
	default:
		l.noSpritekit = err // runs can still be looked at and answered
	}
	network := l.cfg.Network
	network.Models = l.agents.routes.For
	if l.host, err = host.Open(core.Config{Dir: l.home.Sprites(), Self: l.cfg.Self, Skills: skills, Tools: l.cfg.Tools, CheckTool: l.cfg.CheckTool, ImportImages: true,
		KeepSkill: func(dir string) (string, error) { return skillset.KeepSkill(l.home, dir) }, SkillsWith: func(base string, kept []string) (string, error) { return skillset.ComposeSkills(l.home, base, kept) }, InstallSkills: func(spritekit string) (string, error) { return skillset.InstallSkills(l.home, spritekit) }, LetHostPorts: true, BeforeCheckpoint: l.Scrub,
		Network: network, Image: l.cfg.Image, Shared: l.cfg.Shared, URLs: spriteURLs, MinIsolation: l.cfg.MinIsolation, NoRoot: l.cfg.NoRoot, OneUser: l.cfg.OneUser, Box: l.cfg.Box, WarmAfter: l.cfg.WarmAfter, Log: l.cfg.Log}); err != nil {
		l.hostless = newUnopened(err)
		l.noSkills = l.hostless
		l.cfg.Log.Error().Err(err).Msg("lead without sprites")
	}
	l.client = sprites.New(api.Base, "", api.HTTPClient(l.home.Socket()))
	if l.hostless != nil {
		return host.Unopened(err), nil
	}
	if l.cfg.MinIsolation != "" {
		if err := l.host.CheckIsolation(); err != nil {
			l.noSkills = fault.Unsafe("isolation_unavailable", "the settings refuse to run anything here: %v", err).WithHint(`lattice doctor says what helps; min_isolation = "process" in the settings runs it anyway`)
		}
	}
	return l.host.Handler(), nil
}

// newUnopened returns the error, with a remedy, that requests get if the embedded host could not be opened.
func newUnopened(err error) error {
	code := sprites.CodeUnavailable
	if errors.Is(err, records.ErrDamaged) {
		code = sprites.CodeDamaged
	}
	return fault.Failed(code, "there are no sprites: %v", err).WithHint("%s", sprites.Remedy(&sprites.APIError{Code: code}))
}
