package git

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/skills/git/remote"
	"github.com/spritekit/lattice/skills/git/system"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// defaultRepo is the folder of a run's repository.
const defaultRepo = "repo"

// on holds the inputs that all verbs on a repository have.
type on struct {
	Repo      string `json:"repo"`
	Engine    string `json:"engine"`
	Trust     bool   `json:"trust_repo_config"`
	TimeoutMS int    `json:"timeout_ms"`
}

// about holds the results that all verbs on a repository have.
type about struct {
	Repo   string `json:"repo"`
	Engine string `json:"engine"`
}

// repo is an open repository. The engine gets its location and searches for nothing, so that it never uses an enclosing
// repository. The owner of its files does not matter, because its configuration is checked instead.
type repo struct {
	engine.Repo
	at     engine.Location
	config gitconfig.Config
	engine string
	cancel context.CancelFunc
}

// family is the state that the skills share.
type family struct {
	reaper *proc.Reaper
	native engine.Engine
}

// pickEngine returns the engine that a call requests.
func (f family) pickEngine(ctx context.Context, c *skill.Call, name string) (engine.Engine, error) {
	switch name {
	case "", engine.Auto, engine.System:
	case engine.Native:
		return f.native, nil
	default:
		return nil, skill.BadInput("/engine", "%q is not one of auto, native, system", name)
	}
	git, err := system.Find(ctx, f.reaper, proc.Getenv(c.Env, "PATH", proc.DefaultPath))
	var e *skill.Error
	switch {
	case err == nil:
		return git, nil
	case name != engine.System && errors.As(err, &e) && e.Exit == protocol.ExitUnsupported:
		return f.native, nil
	}
	return nil, err
}

// openRepo opens the repository that a call names. It refuses a repository whose configuration could run programs. The returned context
// has the timeout of the call. The caller must close the repository.
func (f family) openRepo(ctx context.Context, c *skill.Call, in on) (context.Context, *repo, error) {
	r := &repo{}
	var err error
	if r.at, err = guard.Locate(c.Root, findFolder(c.Root, cmp.Or(in.Repo, defaultRepo))); err != nil {
		return nil, nil, err
	}
	if err := guard.RefuseWaiting(r.at); err != nil {
		return nil, nil, err
	}
	if r.config, err = guard.ReadConfig(r.at); err != nil {
		return nil, nil, err
	}
	r.at.Config = r.config
	if !in.Trust {
		if err := guard.RefuseKeys(r.at.Name, r.config, gitconfig.Executable()); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel, err := withTimeout(ctx, in.TimeoutMS)
	if err != nil {
		return nil, nil, err
	}
	e, err := f.pickEngine(ctx, c, in.Engine)
	// The native engine does not follow links that lead out of the workspace, so that it could not read them.
	if err == nil && (c.Class != "read" || e.Name() == engine.Native) {
		err = guard.CheckFilesFor(c, r.at)
	}
	if err == nil && c.Class != "read" {
		err = guard.CheckIndex(r.at, in.Trust)
	}
	if err == nil {
		r.Repo, err = e.Open(ctx, r.at)
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	r.engine, r.cancel = e.Name(), cancel
	return ctx, r, nil
}

// findFolder returns the folder of a repository: a workspace without a folder of the default name may itself be one.
func findFolder(root *workspace.Root, name string) string {
	if name != defaultRepo {
		return name
	}
	if _, err := root.Stat(defaultRepo); errors.Is(err, fs.ErrNotExist) {
		if _, err := root.Stat(".git"); err == nil {
			return "."
		}
	}
	return name
}

// close closes the repository and ends its context.
func (r *repo) close() {
	_ = r.Close() // every write has been checked
	r.cancel()
}

// describe returns the results that all verbs have.
func (r *repo) describe() about { return about{Repo: r.at.Name, Engine: r.engine} }

// withTimeout returns ctx with the timeout of an input, in milliseconds; 0 keeps the timeout of the manifest.
func withTimeout(ctx context.Context, ms int) (context.Context, context.CancelFunc, error) {
	switch {
	case ms < 0:
		return nil, nil, skill.BadInput("/timeout_ms", "is negative")
	case ms == 0:
		ctx, cancel := context.WithCancel(ctx)
		return ctx, cancel, nil
	}
	limit := time.Duration(ms) * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fault.Timeout("timeout", "the call took longer than its timeout of %v", limit))
	return ctx, cancel, nil
}

// stageWith calls do, which stages files, after it has excluded the runtime's own files in .git/info/exclude. The native
// engine never stages them and refuses before any change.
func (r *repo) stageWith(do func() error) error {
	if r.engine == engine.Native {
		if err := do(); err != nil {
			return err
		}
		return guard.ExcludeOwn(r.at.Root, r.at.CommonDir)
	}
	if err := guard.ExcludeOwn(r.at.Root, r.at.CommonDir); err != nil {
		return err
	}
	return do()
}

// openRemote checks a remote of the repository. It reads the URL from the configuration once; keys that would
// redirect the URL or the credential are refused.
func (r *repo) openRemote(ctx context.Context, c *skill.Call, name string, trust bool, secret *remote.Credential, permission string) (engine.Source, func(), error) {
	if !guard.IsRemoteName(name) {
		return engine.Source{}, nil, fault.Unsafe("unsafe", "/remote %q is not the name of a remote", name)
	}
	patterns := []string{"url.*.insteadof"}
	if permission == remote.PushPermission || secret != nil {
		patterns = gitconfig.Redirecting()
	}
	if !trust {
		if err := guard.RefuseKeys(r.at.Name, r.config, patterns); err != nil {
			return engine.Source{}, nil, err
		}
	}
	text, _ := r.config.Value("remote", name, "url")
	if text == "" {
		return engine.Source{}, nil, fault.NotFound("not_found", "%s has no remote %s", r.at.Name, name).WithHint("git.clone makes the remote origin")
	}
	return remote.Open(ctx, c, text, "the remote's URL", false, secret, permission)
}
