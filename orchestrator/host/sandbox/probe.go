package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// Report says which kind of box this host can make, and if only a plain one, at which step the other was refused, why, and
// names the remedy.
type Report struct {
	Level      spec.Level // the firmest that works; LevelProcess always does
	Landlock   int        // version of Landlock, a further layer; 0 for none
	Namespaces bool
	Step       string
	Cause      string
	Remedy     string
}

// Probe finds out by doing: it makes a box below dir, writes to /workspace, fails to write to /skills, and removes it all.
// self is the executable that becomes init (Config.Self); dir is a folder for scratch files, best the one that sprites
// will live in.
func Probe(self, dir string) Report {
	err := trySandbox(self, dir)
	if err == nil {
		return Report{Level: spec.Best(), Landlock: spec.LandlockABI(), Namespaces: true}
	}
	r := Report{Level: spec.LevelProcess, Step: "try a sandbox", Cause: err.Error(), Remedy: "run `lattice doctor`, or use a remote sprite (SPRITES_API_URL)"}
	if refused, ok := errors.AsType[*spec.Refusal](err); ok {
		r.Step, r.Cause, r.Remedy = refused.Step, refused.Cause, refused.Remedy
	}
	return r
}

func trySandbox(self, dir string) (err error) {
	scratch, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		return fmt.Errorf("make a folder to try in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	cfg := spec.Config{
		Self:   self,
		Root:   spec.Root{Dir: filepath.Join(scratch, "root"), Host: true},
		Skills: filepath.Join(scratch, "skills"),
		Run:    filepath.Join(scratch, "run"),
		Cache:  filepath.Join(scratch, "cache"),
	}
	for _, d := range []string{cfg.Root.Dir, cfg.Skills, cfg.Run} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return fmt.Errorf("make a folder to try in: %w", err)
		}
	}
	box, err := Start(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Stop()) }()
	proc, err := box.Exec(spec.Process{
		Argv: []string{"/bin/sh", "-c", `echo tried >/workspace/probe && ! (echo bad >/skills/probe) 2>/dev/null`},
		Env:  box.Config().BaseEnv(),
	})
	if err != nil {
		return err
	}
	if code, err := proc.Wait(); err != nil || code != 0 {
		return errors.Join(err, fmt.Errorf("a command in the sandbox ended with status %d", code))
	}
	got, err := os.ReadFile(filepath.Join(cfg.Root.Dir, "workspace", "probe"))
	if err != nil || strings.TrimSpace(string(got)) != "tried" {
		return errors.Join(err, errors.New("what the sandbox wrote to /workspace is not there"))
	}
	return nil
}
