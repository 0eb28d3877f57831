// Package leader is the one process that leads a state directory: it owns the store, the runners and the embedded sprite
// host, and serves all of it behind one http.Handler (DESIGN 1). Start with Leader, the api.Service, and Leader.composeParts,
// which connects the parts. Each part is a package below this one; DESIGN.md in this folder says what each owns and how a
// part is added.
//
// A leader drives the runs that it is asked to drive and no others: opening a home never continues an interrupted run.
// It decides nothing about the course of a run; that is engine.Step.
package leader

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/board/mirror"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/fleet"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
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
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/inbox"
	"github.com/spritekit/lattice/orchestrator/leader/intents"
	"github.com/spritekit/lattice/orchestrator/leader/retention"
	"github.com/spritekit/lattice/orchestrator/leader/runs"
	"github.com/spritekit/lattice/orchestrator/leader/spending"
	"github.com/spritekit/lattice/orchestrator/leader/storage"
	"github.com/spritekit/lattice/orchestrator/leader/travel"
	"github.com/spritekit/lattice/orchestrator/leader/upkeep"
	"github.com/spritekit/lattice/orchestrator/leader/views"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/secret"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/trace"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/redact"
)

// Config of Open.
type Config struct {
	Home      home.Home
	Store     string          // address of the store, "" for the file of Home
	Lead      store.Leader    // how this process leads a store that is a database
	Version   string          // of this build
	API       int             // version of the leader's interface, 0 = api.Version
	Oldest    int             // oldest one of clients that are served, 0 = api.Oldest
	Serving   bool            // the process does nothing but lead; its runs continue without a client that follows them
	Self      string          // the lattice binary, for sandboxes
	Spritekit string          // as told by the user, "" = look for it
	Path      string          // $PATH, to look in
	Tools     []string        // toolchains outside the system's folders that sprites see
	Remote    *sprites.Client // nil = embedded host
	Environ   []string        // the user's environment, for git
	Log       zerolog.Logger
	// CheckTool checks a path that a single sprite is to see in addition to Tools; see core.Config. Nil refuses all.
	CheckTool func(path string) (string, error)
	// Network is the network policy of sprites of the embedded host.
	Network core.Network
	// Image is the image of sprites of the embedded host whose creation names none; see core.Config.
	Image string
	// Shared holds the caches that sprites may only read; see core.Config.
	Shared string
	// Name and Email are the author of commits if neither the repository nor git's settings name one.
	Name, Email string
	// MinIsolation is the least isolation at which sprites of the embedded host run commands; see core.Config.
	MinIsolation spec.Level
	// NoRoot turns off root in sprites of the embedded host.
	NoRoot bool
	// OneUser has sprites of the embedded host do without sub-ids.
	OneUser bool
	// Box limits each sprite of the embedded host; 0 is the default.
	Box spec.Limits
	// WarmAfter is the time after which an idle sprite of the embedded host falls asleep; 0 is the host's default.
	WarmAfter time.Duration
	// Models are the models of runs that name none; nil: none.
	Models drive.Models
	// Policy reads the server's layers of the policy, the first one first. It is called for each decision, so that a change of
	// the file holds at once. Nil: there are none.
	Policy func() ([]policy.Layer, error)
	// Notify says where people are told about runs.
	Notify Notify
	// Schedules create intents while the process serves.
	Schedules map[string]intents.Schedule
	// Fleet reads the fleet file, to which sprites are compared every FleetEvery while the process serves; 0 is never.
	Fleet      func() (fleet.Document, error)
	FleetEvery time.Duration
	// Forges are the code hosts where people decide.
	Forges map[string]Forge
	// ObserveForges has a function called with each request to a code host.
	ObserveForges func(func(host string, r *http.Request, status int))
	// KeepTurns is how many checkpoints of turns of agents a sprite keeps; 0 for the default.
	KeepTurns int
	// Engine schedules the runs; nil: their drives do. The leader ends it.
	Engine drive.Engine
	// Boards are the folders of repositories whose boards are shown.
	Boards []string
	Issues map[string]mirror.Source // that become tasks of the board in a folder
	// Flows are the flows that are shown.
	Flows flows.Config
	// Publisher performs actions at code hosts; nil: there are none.
	Publisher action.Publisher
	// AuthorizeGit returns the header Authorization of git's requests to a repository; see worktree.Options. It may be nil.
	AuthorizeGit func(ctx context.Context, url string) (string, error)
	// Credentials returns the credentials of this process, by the names under which they may be reported. It may be nil.
	Credentials func() map[string]string
	// ModelsOf opens the models that a run was started with. key returns the value of a variable that holds a key.
	ModelsOf func(m lattice.Models, key func(name string) string) (drive.Models, error)
	// Told holds the network flags of lattice serve, and the URL at which it serves the page.
	Told struct {
		Network   string
		HostPorts []uint16
		HTTP      string
	}
	// Secrets are the secrets of the settings, by name.
	Secrets map[string]secret.Source
	// Settings returns digests, by name, of the settings that apply for as long as this process leads, and of the policy that
	// holds now. It may be nil.
	Settings func() map[string]string
	// Providers are the model providers of the settings. Agents reach them through the embedded host, without the keys.
	Providers []ModelProvider
	// Traces sends the trace of each run that ends; nil: nowhere.
	Traces *trace.Exporter
	// Transport speaks to the providers of agents; nil is [http.DefaultTransport].
	Transport http.RoundTripper
	// ReadOnly is a folder for temporary files if Home cannot be written: then runs can only be read and backed up. ""
	// otherwise.
	ReadOnly string
	WrapLog  func(driver.Log) driver.Log // if not nil, wraps the store for the engine
	Recorded func()                      // if not nil, is called when an entry of the audit log is on disk
	// LogSecrets, if not nil, is called with the function that returns the secrets that no line of Log may hold.
	LogSecrets func(func() *redact.Secrets)
	// Warn shows a warning to the person at the terminal.
	Warn func(string)
}

// Leader leads one home: it composes the parts that own the state, and serves them as the api.Service. It is safe for
// concurrent use.
type Leader struct {
	*history.Records
	*history.Outputs
	*views.Views
	*views.Loops
	*runs.Starter
	*travel.Travel
	*travel.Shells
	*runs.Decisions
	*runs.Notes
	*environment.Register
	*retention.Artifacts
	*retention.Pruner
	*storage.Storage
	*govern.Ledger
	*intents.Pipeline
	*intents.Scheduler
	*upkeep.Reconciler
	*credentials.Vault
	*access.Gate
	*inbox.Inbox
	*boards.Boards
	*flows.Flows
	*spending.Keeper
	*drive.Succession

	cfg      Config
	home     home.Home
	store    *store.Store
	host     *host.Host // nil with a remote Sprites API
	client   *sprites.Client
	git      *worktree.Git
	session  *session.Session
	models   *drive.ModelSet
	agents   *agents
	disarm   *disarm.Notes
	drives   *drive.Drives
	notifier *notifier
	presence // at code hosts
	sandboxes
	handler http.Handler
	// hostless is the reason why the embedded host could not be opened. Runs can then only be read and backed up.
	hostless error
	// noSkills is the reason why no skill may run in sprites of the embedded host; noSpritekit is the reason why sprites have
	// only the skills that their run brings.
	noSkills, noSpritekit error

	quiesced func() error // endWork, once
	stop     func()       // ends the work in the background, nil if there is none
	// endEngine ends the engine, after the drives; nil if there is none.
	endEngine func()
}

// spriteURLs is the address on which the URLs of sprites are served: a free port, the same each time if possible.
const spriteURLs = "127.0.0.1:0"

// Handler serves the leader's API, and the embedded host's below /v1/sprites.
func (l *Leader) Handler() http.Handler { return l.handler }

// Hello describes this leader.
func (l *Leader) Hello() api.Hello {
	h := api.Hello{
		API: cmp.Or(l.cfg.API, api.Version), Oldest: cmp.Or(l.cfg.Oldest, api.Oldest), Version: l.cfg.Version,
		Serving: l.cfg.Serving, PID: os.Getpid(), Home: string(l.home), Sandbox: "remote",
		Network: l.cfg.Told.Network, HostPorts: l.cfg.Told.HostPorts, HTTP: l.cfg.Told.HTTP, Settings: l.cfg.Settings(),
	}
	h.Ending, h.Driven = l.drives.IsClosing(), l.drives.CountDriven()
	if runs, err := l.store.Count(); err == nil {
		h.Runs = runs
	}
	if l.hostless != nil {
		h.Sandbox, h.Warning = "none", l.hostless.Error()
	}
	if l.host != nil {
		h.Isolation, h.Sandbox, h.Warning = l.host.Isolation(), l.host.Mode(), l.host.Warning()
	}
	return h
}

// Lost is closed when another process may lead the database soon; see [store.Store.Lost].
func (l *Leader) Lost() <-chan struct{} { return l.store.Lost() }
