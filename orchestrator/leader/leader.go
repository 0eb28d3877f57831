// Package leader is the one process that leads a state directory: it owns the store, the runners and the embedded
// sprite host, and serves all of it behind one http.Handler (DESIGN 1). Leader is the type to look at first; it is the
// api.Service.
//
//	Home      where things lie, and the lock that makes one process the leader
//	runs.go   start, list and show runs
//	drive.go  who drives a run, and until when
//	decide.go a person's answers
//	handover.go who leads next, and when a leader that idles ends
//	travel.go rewind.go, fork.go, compare.go: going back in runs, copies of them, and what changed
//	retain.go which checkpoints of a run are kept
//	prune.go  what ended runs left behind
//	prepare.go a run's sprite, repository and task.json
//	equip.go  /skills in sprites of a remote host
//	artifacts.go copies of the files that runs declared
//	storage.go checks, compaction and backups of the store; restore.go the way back
//
// A leader drives what it is asked to drive and nothing else: opening a home never continues an interrupted run by
// itself. It decides nothing about a run's course; that is engine.Step.
package leader

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/modelroute"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Config of Open.
type Config struct {
	Home      Home
	Version   string          // of this build
	API       int             // version of the leader's interface, 0 = api.Version
	Oldest    int             // oldest one of clients that are served, 0 = api.Oldest
	Serving   bool            // leading is all that this process does: what it drives goes on unfollowed
	Self      string          // the lattice binary, for sandboxes
	Spritekit string          // as told by the user, "" = look for it
	Path      string          // $PATH, to look in
	Tools     []string        // toolchains outside the system's folders that sprites see
	Remote    *sprites.Client // nil = embedded host
	Environ   []string        // the user's environment, for git
	Log       zerolog.Logger
	// CheckTool judges a path that one sprite is to see besides Tools; see host.Config. Nil refuses all.
	CheckTool func(path string) (string, error)
	// Network is what sprites of the embedded host reach.
	Network host.Network
	// Image is what sprites of the embedded host start from whose creation names no image; see host.Config.
	Image string
	// Shared is where caches lie that sprites read only; see host.Config.
	Shared string
	// Name and Email are who commits where neither the repository nor git's settings say.
	Name, Email string
	// MinIsolation refuses to run anything in sprites of the embedded host that are kept apart by less; see host.Config.
	MinIsolation sandbox.Level
	// NoRoot has sprites of the embedded host without a root of their own.
	NoRoot bool
	// Box is what each sprite of the embedded host may use; 0 is the default.
	Box sandbox.Limits
	// WarmAfter is when an idle sprite of the embedded host falls asleep; 0 is the host's own.
	WarmAfter time.Duration
	// Models answers for models where a run does not say which; nil: none.
	Models Models
	// Policy decides about the actions that sprites ask for; nil is the default.
	Policy action.Policy
	// Credentials returns what this process authenticates with, by the names under which it may be reported. It may be nil.
	Credentials func() map[string]string
	// ModelsOf answers for the models that a run was started with. key is the value of a variable that holds one's key.
	ModelsOf func(m lattice.Models, key func(name string) string) (Models, error)
	// Told is what a flag of lattice serve said of the network.
	Told struct {
		Network   string
		HostPorts []uint16
	}
	// Settings are digests of the settings that hold for as long as this process leads, by name.
	Settings map[string]string
	// Providers are those of the settings, which agents reach through the embedded host without their keys.
	Providers []ModelProvider
	// Transport speaks to the providers of agents; nil is [http.DefaultTransport].
	Transport http.RoundTripper
	// ReadOnly is a folder for what is temporary when nothing can be written to Home: then runs can be read and backed up,
	// and nothing else. "" otherwise.
	ReadOnly string
	// WrapLog, when set, stands between the engine and the store.
	WrapLog func(engine.Log) engine.Log
	// Warn tells the person at the terminal something that the run goes on in spite of.
	Warn func(string)
}

// Leader leads one home. It is safe for concurrent use.
type Leader struct {
	reviewer
	notes
	cfg     Config
	home    Home
	store   *store.Store
	host    *host.Host // nil with a remote Sprites API
	client  *sprites.Client
	session *session.Session
	git     *worktree.Git
	actor   *action.Fulfiller
	handler http.Handler
	// hostless is why the embedded host could not be opened: runs can be read and backed up, and nothing else.
	hostless error
	routes   *modelroute.Routes
	// noSkills is why no skill may run in sprites of the embedded host, nil when they may; noSpritekit is why those have no
	// skills that are not given any by their run.
	noSkills, noSpritekit error

	handed chan struct{} // closed when another process leads next
	ending chan struct{} // closed by quiesce

	quiesced func() error // quiesce, once

	pruning sync.Mutex // one prune at a time
	linking sync.Mutex // one beginning of a run by an answer at a time

	mu       sync.Mutex
	closing  bool                // guarded by mu, as all below
	yielding chan struct{}       // set while a hand-over is tried, closed after
	working  tally               // drives, and requests that use sprites
	timed    tally               // waits with a timer
	clients  tally               // all other requests
	runs     map[string]*run     // loaded ones, by id
	ended    []string            // those of them that have ended, the newest last
	secrets  map[string][]string // KEY=VALUE for agents, by run; never stored
	models   askers
	changed  map[string]chan struct{} // closed and replaced when a run changes
	// boundaries counts those that this process took, by sprite.
	boundaries map[string]int
	drives     sync.WaitGroup
}

// run is a loaded run.
type run struct {
	runner  *engine.Runner
	begin   lattice.RunStarted // its first fact
	fork    *lattice.RunForked // the same, of a run that goes on from another one
	models  *lattice.Models    // those that it asks, nil for the leader's; guarded by mu
	cancel  func()             // stops the drive
	done    chan struct{}      // closed when the drive has ended; nil while nobody drives
	stopped error              // why the last drive ended

	detached bool // goes on when nobody follows it
	timed    int  // waits with a timer: usually one, for a moment two
	yielded  bool // put down while a hand-over is tried
}

// Open opens the home. The caller holds its lock.
func Open(cfg Config) (*Leader, error) {
	l := &Leader{
		cfg: cfg, home: cfg.Home, handed: make(chan struct{}), ending: make(chan struct{}),
		runs: map[string]*run{}, secrets: map[string][]string{}, changed: map[string]chan struct{}{}, boundaries: map[string]int{},
	}
	l.reviewer, l.notes = reviewer{l}, notes{l, &sync.Mutex{}}
	l.quiesced = sync.OnceValue(l.quiesce)
	if err := l.open(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Leader) open() (err error) {
	if l.cfg.ReadOnly != "" {
		return l.openReadOnly()
	}
	if err := sweep(l.home); err != nil {
		return StoreProblem(err)
	}
	if l.store, err = store.Open(l.home.Store()); err != nil {
		return StoreProblem(err)
	}
	if l.git, err = worktree.New(worktree.Options{Env: l.cfg.Environ, Scratch: l.home.Scratch(), Mirrors: l.home.Mirrors()}); err != nil {
		return err
	}
	l.routes = modelroute.New(modelroute.Options{Upstream: l.upstream, Record: l.recordUse, Transport: l.cfg.Transport})
	var sprites http.Handler
	if l.client = l.cfg.Remote; l.client == nil {
		if sprites, err = l.openHost(); err != nil {
			return err
		}
	}
	l.compose(sprites)
	return nil
}

// compose puts together what acts through the client and the store.
func (l *Leader) compose(sprites http.Handler) {
	l.session = session.New(l.client, session.Options{Log: l.cfg.Log, Output: l.output, Secrets: l.agentEnv, Issued: l.issued, Equip: l.equip})
	l.actor = action.New(action.Options{Files: l.client, Git: l.git, Dir: l.home.Bundles(), RepoOf: l.repoOf, AgentEnv: l.agentEnvNames, Secrets: l.secretValues, Policy: l.cfg.Policy})
	l.handler = l.counted(api.Handler(l, sprites))
}

// openHost starts the embedded sprite host and a client that calls it in process.
func (l *Leader) openHost() (http.Handler, error) {
	skills := ""
	spritekit, err := FindSpritekit(l.cfg.Spritekit, l.cfg.Self, l.cfg.Path)
	switch {
	case err == nil:
		if skills, err = InstallSkills(l.home, spritekit); err != nil {
			return nil, err
		}
	case l.cfg.Spritekit != "":
		return nil, err
	default:
		l.noSpritekit = err // runs can still be looked at and answered
	}
	network := l.cfg.Network
	network.Models = l.routes.For
	if l.host, err = host.Open(host.Config{Dir: l.home.Sprites(), Self: l.cfg.Self, Skills: skills, Tools: l.cfg.Tools, CheckTool: l.cfg.CheckTool, ImportImages: true,
		KeepSkill: l.home.keepSkill, SkillsWith: l.home.skillsWith, InstallSkills: func(spritekit string) (string, error) { return InstallSkills(l.home, spritekit) }, LetHostPorts: true,
		Network: network, Image: l.cfg.Image, Shared: l.cfg.Shared, URLs: spriteURLs, MinIsolation: l.cfg.MinIsolation, NoRoot: l.cfg.NoRoot, Box: l.cfg.Box, WarmAfter: l.cfg.WarmAfter, Log: l.cfg.Log}); err != nil {
		l.hostless = unopened(err)
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

// unopened makes the reason why the embedded host could not be opened something that a user can act on.
func unopened(err error) error {
	code := sprites.CodeUnavailable
	if errors.Is(err, host.ErrDamaged) {
		code = sprites.CodeDamaged
	}
	return fault.Failed(code, "there are no sprites: %v", err).WithHint("%s", sprites.Remedy(&sprites.APIError{Code: code}))
}

// spriteURLs is where the URLs of sprites are served: a free port, the same each time if possible.
const spriteURLs = "127.0.0.1:0"

// Handler serves the leader's API, and the embedded host's below /v1/sprites.
func (l *Leader) Handler() http.Handler { return l.handler }

// Hello says who leads.
func (l *Leader) Hello() api.Hello {
	h := api.Hello{
		API: cmp.Or(l.cfg.API, api.Version), Oldest: cmp.Or(l.cfg.Oldest, api.Oldest), Version: l.cfg.Version,
		Serving: l.cfg.Serving, PID: os.Getpid(), Home: string(l.home), Sandbox: "remote",
		Network: l.cfg.Told.Network, HostPorts: l.cfg.Told.HostPorts, Settings: l.cfg.Settings,
	}
	l.mu.Lock()
	h.Ending = l.closing
	l.mu.Unlock()
	if l.hostless != nil {
		h.Sandbox, h.Warning = "none", l.hostless.Error()
	}
	if l.host != nil {
		h.Isolation, h.Sandbox, h.Warning = l.host.Isolation(), l.host.Mode(), l.host.Warning()
	}
	return h
}

// Quiesce stops driving and ends every sandbox. Runs stay resumable. What was asked before is still answered, so that the
// server can end without cutting anybody off; Close comes after that.
func (l *Leader) Quiesce() error { return l.quiesced() }

func (l *Leader) quiesce() error {
	close(l.ending)
	l.mu.Lock()
	l.closing = true
	for _, r := range l.runs {
		if r.done != nil {
			r.cancel()
		}
	}
	for id := range l.changed {
		l.notify(id)
	}
	l.mu.Unlock()
	l.drives.Wait()
	if l.session != nil {
		l.session.Close()
	}
	if l.host != nil {
		return l.host.Close()
	}
	return nil
}

// Close ends the leader, and closes the store. It is called once.
func (l *Leader) Close() error {
	err := l.Quiesce()
	if l.store != nil {
		err = errors.Join(err, l.store.Close())
	}
	return err
}

// errClosing answers requests that come while the leader ends; another process may lead at once.
var errClosing = fault.Busy(api.CodeLeaderEnding, "the leading lattice is ending").WithHint("try again")

// notify wakes those who watch a run. mu is held.
func (l *Leader) notify(id string) {
	if c, ok := l.changed[id]; ok {
		close(c)
		delete(l.changed, id)
	}
}

// wait returns a channel that is closed at the run's next change. mu is held.
func (l *Leader) wait(id string) <-chan struct{} {
	c, ok := l.changed[id]
	if !ok {
		c = make(chan struct{})
		l.changed[id] = c
	}
	return c
}

// agentEnvNames are the variables that agents of a run get.
func (l *Leader) agentEnvNames(run string) []string {
	rec, err := l.record(run)
	if err != nil {
		return nil // a run that cannot be read pushes nothing either
	}
	return rec.kept.AgentEnv
}

// keepValues remembers what agents of a run may see, and keys of models, for as long as this process leads. Names that the
// run was not started with are left out.
func (l *Leader) keepValues(run string, names []string, v api.Values) {
	l.models.keep(v.ModelKeys)
	var env []string
	for _, name := range names {
		if value, ok := v.Secrets[name]; ok {
			env = append(env, name+"="+value)
		}
	}
	if env == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secrets[run] = env
}

// missingEnv are those of names whose values this process does not have for a run. mu is held.
func (l *Leader) missingEnv(run string, names []string) (missing []string) {
	for _, name := range names {
		if !slices.ContainsFunc(l.secrets[run], func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
			missing = append(missing, name)
		}
	}
	return missing
}

// deps is what the runner of a run acts through.
func (l *Leader) deps(id string) engine.Deps {
	var log engine.Log = l.store
	if l.cfg.WrapLog != nil {
		log = l.cfg.WrapLog(log)
	}
	return withClocks(engine.Deps{
		Log: noter{log, l}, Caller: l.session, Boundary: boundaries{l.session, l}, Preparer: l, Forker: copier{l}, Actor: l.actor, Model: l.model(id),
		OnEntry: func(entries []lattice.Entry) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.notify(entries[0].Run)
		},
	})
}

// issued returns the call ids that were given out in a run so far. Facts name those of calls that ended; those of calls
// under way are looked up first, lest one that ends meanwhile is missed.
func (l *Leader) issued(id string) map[string]bool {
	ids := l.underWay(id)
	history, err := l.store.Load(id)
	if err != nil {
		return ids
	}
	for _, e := range history.Facts {
		var f struct {
			CallID string `json:"call_id"`
		}
		if json.Unmarshal(e.Body, &f) == nil && f.CallID != "" {
			ids[f.CallID] = true
		}
	}
	return ids
}

func (l *Leader) underWay(id string) map[string]bool {
	ids := map[string]bool{}
	rec, err := l.store.Run(id)
	if err != nil {
		return ids
	}
	at, _, err := l.standing(id)
	if err != nil {
		return ids
	}
	for _, c := range at.State.Pending {
		if c.Call != nil {
			ids[lattice.CallID(rec.Secret, *c.Call)] = true
		}
	}
	return ids
}

// repoOf says which repository a run was seeded from; its branch there bears the run's id.
func (l *Leader) repoOf(id string) (spec, name string, ok bool) {
	rec, err := l.record(id)
	if err != nil || rec.kept.Repo == "" {
		return "", "", false
	}
	return rec.kept.Repo, l.branchName(id), true
}

// branchName is what the run's branch in a local repository is called behind lattice/.
func (l *Leader) branchName(id string) string {
	at, _, err := l.standing(id)
	if err != nil {
		return id
	}
	repo, _ := at.State.Ctx["repo"].(map[string]any)
	branch, _ := repo["push_branch"].(string)
	return cmp.Or(ownBranch(branch, id), id)
}
