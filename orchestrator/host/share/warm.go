package share

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/tree"
)

// Errors of WarmGo that say why there is no shared cache.
var (
	ErrNoShared = errors.New("no place for shared caches is configured")
	ErrPlain    = errors.New("shared caches need namespaces, or sprites could change what others read")
	ErrNoGo     = errors.New("sprites see no Go toolchain")
	ErrWarming  = errors.New("another lattice is making the shared cache")
)

// toolchainName matches toolchains as `go env` prints them, if they can name a folder.
var toolchainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,80}$`) })

// WarmGo compiles and vets packages ("std" is the whole standard library) with the Go that sprites see, in a sandbox of its own, and
// makes the result the shared Go build cache of sprites that start from then on. It returns the toolchain. The
// output of the commands goes to out. A warming that was cut off goes on where it was; one of a toolchain that has its cache
// already does nothing.
func (g *GoCaches) WarmGo(ctx context.Context, out io.Writer, packages ...string) (toolchain string, err error) {
	switch {
	case g.Config.Shared == "":
		return "", ErrNoShared
	case g.confiner.Confined().Plain:
		return "", ErrPlain
	}
	base := filepath.Join(g.Config.Shared, "go-build")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", fmt.Errorf("make the shared cache: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(base, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("make the shared cache: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return "", errors.Join(ErrWarming, err)
	}
	w := warming{dir: filepath.Join(base, ".warming"), out: out}
	toolchain, err = w.run(ctx, g, packages)
	if err != nil {
		return "", fmt.Errorf("make the shared cache: %w", err)
	}
	return toolchain, w.publishCache(filepath.Join(base, toolchain))
}

// warming is a sandbox whose own cache becomes the shared one.
type warming struct {
	dir string
	out io.Writer
}

func (w warming) run(ctx context.Context, g *GoCaches, packages []string) (toolchain string, err error) {
	cfg := spec.Config{
		Self: g.Config.Self, Root: spec.Root{Dir: filepath.Join(w.dir, "root"), Host: true}, Run: filepath.Join(w.dir, "run"), Skills: filepath.Join(w.dir, "skills"),
		Cache: filepath.Join(w.dir, "cache"), Tools: g.confiner.Tools(records.Sprite{}),
	}
	for _, dir := range []string{cfg.Root.Dir, cfg.Run, cfg.Skills, cfg.Cache} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	box, err := sandbox.Start(cfg)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, box.Stop()) }()
	defer context.AfterFunc(ctx, func() { _ = box.Stop() })() // Stop may be called twice; the second one reports
	var said bytes.Buffer
	code, err := w.runCommand(box, &said, "go", "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil || code == 127 {
		return "", errors.Join(err, ErrNoGo)
	}
	toolchain = strings.Join(strings.Fields(said.String()), "-")
	if code != 0 || !toolchainName().MatchString(toolchain) {
		return "", fmt.Errorf("go env ends with %d: %s", code, said.String())
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(w.dir), toolchain)); err == nil {
		return toolchain, nil
	}
	code, err = w.runCommand(box, w.out, append([]string{"sh", "-c", lowPriority + `exec go build "$@"`, "sh"}, packages...)...)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err == nil && code != 0 {
		err = fmt.Errorf("go build ends with %d", code)
	}
	if err != nil {
		return toolchain, err
	}
	if code, err = w.runCommand(box, w.out, append([]string{"sh", "-c", lowPriority + vetScript, "sh"}, packages...)...); err == nil && code != 0 {
		err = fmt.Errorf("go test ends with %d", code)
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return toolchain, err
}

// lowPriority lets everything else on the machine run first.
const lowPriority = "renice -n 19 -p $$ >/dev/null 2>&1 || true\n"

// vetScript tests a package that imports the packages of its arguments. The vet of "go test" looks at each dependency,
// with analyzers of its own, so that "go vet" does not fill the cache for it.
const vetScript = `set -e
dir=$(mktemp -d)
cd "$dir"
printf 'module warm\n' >go.mod
{
	echo 'package warm'
	echo 'import ('
	go list -e -f '{{if and .GoFiles (not .Error)}}_ "{{.ImportPath}}"{{end}}' "$@" | grep -v -e '"internal' -e /internal -e '"vendor' || true
	echo ')'
} >warm.go
printf 'package warm\n\nimport "testing"\n\nfunc TestWarm(*testing.T) {}\n' >warm_test.go
go test -count=1 .
rm -rf "$dir"`

func (w warming) runCommand(box *sandbox.Box, out io.Writer, argv ...string) (code int, err error) {
	r, theirs, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	// The environment is that of a sprite's commands, because the cache's keys depend on it; nothing is downloaded.
	proc, err := box.Exec(spec.Process{Argv: argv, Env: append(box.Config().BaseEnv(), "GOPROXY=off"), Stdout: theirs, Stderr: theirs})
	theirs.Close()
	if failed, ok := errors.AsType[*spec.StartError](err); ok {
		return failed.Code, nil
	}
	if err != nil {
		return 0, err
	}
	_, copyErr := io.Copy(out, r)
	code, err = proc.Wait()
	return code, errors.Join(err, copyErr)
}

// publishCache gives the finished cache its name. It is complete and synced before.
func (w warming) publishCache(final string) error {
	made := filepath.Join(w.dir, "cache", "go-build")
	if _, err := os.Stat(final); err != nil {
		for _, own := range []string{"trim.txt", "testexpire.txt"} { // bookkeeping of the cache itself
			if err := os.Remove(filepath.Join(made, own)); ignoreNotExist(err) != nil {
				return err
			}
		}
		if err := errors.Join(os.Chmod(made, 0o755), tree.Sync(made)); err != nil {
			return fmt.Errorf("place the shared cache: %w", err)
		}
		if err := os.Rename(made, final); err != nil {
			return fmt.Errorf("place the shared cache: %w", err)
		}
	}
	return errors.Join(tree.Remove(w.dir), dropUnused(filepath.Dir(final), filepath.Base(final)))
}

// UnusedAfter is when a toolchain's cache goes that no starting sprite was given.
const UnusedAfter = 90 * 24 * time.Hour

// dropUnused removes the caches of toolchains that are no longer used. Sprites that still have links to one get new ones
// when they start.
func dropUnused(base, keep string) error {
	entries, err := os.ReadDir(base)
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		used, err := os.Stat(filepath.Join(dir, "README")) // see refresh
		if err != nil || e.Name() == keep || strings.HasPrefix(e.Name(), ".") || time.Since(used.ModTime()) < UnusedAfter {
			continue
		}
		if err := tree.Remove(dir); err != nil {
			return err
		}
	}
	return nil
}
