package git

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	maxOutput = 64 << 20 // bytes of git's stdout that are kept
	maxDiag   = 64 << 10 // bytes of git's stderr that are kept
	stopGrace = 2 * time.Second
)

// nowhere is a home without configuration; git takes a missing folder as an empty one.
const nowhere = "/nonexistent"

// overrides are forced onto every git command, over whatever the repository's configuration says. They stand on the
// command line, where they win in every git since 2.30. What cannot be overridden is refused in checkConfig.
var overrides = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=", "core.untrackedCache=false", "core.attributesFile=/dev/null",
	"core.excludesFile=/dev/null", "core.askPass=", "core.editor=false", "sequence.editor=false", "core.pager=cat",
	"core.quotePath=false", "core.protectHFS=true", "core.protectNTFS=true", "core.precomposeUnicode=false",
	"credential.helper=", "protocol.ext.allow=never", "http.followRedirects=initial", "transfer.fsckObjects=true",
	"submodule.recurse=false", "fetch.recurseSubmodules=false", "push.recurseSubmodules=no", "push.followTags=false",
	"push.gpgSign=false", "commit.gpgSign=false", "tag.gpgSign=false", "log.showSignature=false", "commit.cleanup=whitespace",
	"commit.verbose=false", "pack.threads=1", "gc.auto=0", "maintenance.auto=false", "init.templateDir=", "color.ui=false",
	"status.relativePaths=false", "status.showStash=false", "diff.ignoreSubmodules=none", "diff.renames=true",
	"rebase.autoStash=false", "advice.detachedHead=false",
}

// system runs the sprite's own git for one call.
type system struct {
	reaper *proc.Reaper
	bin    string
	path   string // PATH for git's own children
	hide   []string
}

// newSystem finds git on the PATH of the call and checks that it is new enough.
func (f family) newSystem(ctx context.Context, c *skill.Call) (*system, error) {
	s := &system{reaper: f.reaper, path: proc.Getenv(c.Env, "PATH", proc.DefaultPath)}
	bin, err := proc.LookPath("git", s.path)
	if err != nil {
		return nil, skill.Unsupported("unsupported", "this sprite has no git").
			WithHint("use an image that has git 2.30 or newer on PATH")
	}
	s.bin = bin
	out, err := s.run(ctx, command{args: []string{"version"}})
	if err != nil {
		return nil, err
	}
	if v := version(string(out)); slices.Compare(v, []int{2, 30}) < 0 {
		return nil, skill.Unsupported("unsupported", "this sprite's git is too old: %s", strings.TrimSpace(string(out))).
			WithHint("use an image that has git 2.30 or newer on PATH")
	}
	return s, nil
}

// version finds major and minor. The pattern is compiled here: as a global every skill would pay for it at its start.
func version(text string) []int {
	m := regexp.MustCompile(`\b(\d+)\.(\d+)`).FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	v := make([]int, 2)
	for i := range v {
		fmt.Sscan(m[i+1], &v[i])
	}
	return v
}

// command is one run of git.
type command struct {
	args    []string
	dir     string // where git runs; "/" when empty, so that it finds no repository by itself
	env     []string
	allow   string // the transport protocols that may be used, none when empty
	stdin   string
	stdout  io.Writer         // instead of returning it
	ok      []int             // exit codes that are no failure, besides 0
	follow  func(line string) // sees each line of stderr
	reading bool              // takes no optional locks
}

// failure is a git command that ended with a code that was not expected.
type failure struct {
	verb   string
	exit   proc.Exit
	stderr string
}

func (f *failure) Error() string {
	if f.stderr == "" {
		return fmt.Sprintf("git %s ended with code %d", f.verb, f.exit.Code)
	}
	return fmt.Sprintf("git %s: %s", f.verb, f.stderr)
}

// run runs git and returns its stdout. A failure that everybody treats alike comes as a *skill.Error, others as
// a *failure.
func (s *system) run(ctx context.Context, cmd command) ([]byte, error) {
	argv := []string{s.bin}
	for _, o := range overrides {
		argv = append(argv, "-c", o)
	}
	argv = append(argv, cmd.args...)
	stdout, stderr := &proc.Head{Limit: maxOutput}, &proc.Head{Limit: maxDiag}
	diag := &lineWriter{to: stderr, follow: cmd.follow}
	spec := proc.Spec{
		Argv: argv, Dir: cmd.dir, Env: append(s.env(cmd), cmd.env...), Stdin: cmd.stdin,
		Stdout: stdout, Stderr: diag, Grace: stopGrace,
	}
	if cmd.stdout != nil {
		spec.Stdout = cmd.stdout
	}
	if spec.Dir == "" {
		spec.Dir = "/"
	}
	exit, err := s.reaper.Run(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("git %s: %w", verb(cmd.args), context.Cause(ctx))
	}
	if exit.Code != 0 && !slices.Contains(cmd.ok, exit.Code) {
		f := &failure{verb: verb(cmd.args), exit: exit, stderr: s.tidy(stderr.Bytes())}
		if f.couldNotWrite() && isFull(spec.Dir) {
			return nil, skill.Fault(because{f, syscall.ENOSPC})
		}
		return nil, classify(f)
	}
	if stdout.Omitted() > 0 {
		return nil, skill.Limit("too_much_output", "git %s said more than %d bytes", verb(cmd.args), maxOutput)
	}
	return stdout.Bytes(), nil
}

// env is the whole environment of git.
func (s *system) env(cmd command) []string {
	allow := cmd.allow
	if allow == "" {
		allow = "none"
	}
	env := []string{
		"PATH=" + s.path, "HOME=" + nowhere, "XDG_CONFIG_HOME=" + nowhere, "LC_ALL=C", "LANGUAGE=", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=false", "SSH_ASKPASS=false", "GIT_EDITOR=false", "GIT_PAGER=cat", "GIT_ALLOW_PROTOCOL=" + allow,
		"GIT_PROTOCOL_FROM_USER=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ADVICE=0",
		"GIT_SSH_COMMAND=ssh -oBatchMode=yes -oStrictHostKeyChecking=yes -oIdentitiesOnly=yes", "GIT_SSH_VARIANT=ssh",
	}
	if cmd.reading {
		env = append(env, "GIT_OPTIONAL_LOCKS=0")
	}
	return env
}

// verb is the sub-command, past the options of git itself.
func verb(args []string) string {
	for i := 0; i < len(args); i++ {
		if args[i] == "-c" || args[i] == "-C" {
			i++
		} else if !strings.HasPrefix(args[i], "-") {
			return args[i]
		}
	}
	return ""
}

// tidy makes git's stderr one line for a message: the last of it, without progress and without what is hidden.
func (s *system) tidy(stderr []byte) string {
	var lines []string
	for line := range strings.FieldsFuncSeq(string(stderr), func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(strings.ToValidUTF8(line, "\uFFFD"))
		if line != "" && !strings.HasPrefix(line, "hint:") && !strings.HasPrefix(line, "Cloning into ") {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines[max(0, len(lines)-8):], "; ")
	for _, secret := range s.hide {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// classify gives the failures that callers tell apart their code. The texts are git's own in the C locale.
func classify(f *failure) error {
	text := strings.ToLower(f.stderr)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch {
	case has(".lock': file exists", "another git process"):
		return skill.Busy("%v", f).WithHint("another git command holds the repository; try again, or remove the lock file of one that died")
	case has("transport 'file' not allowed", "transport 'ext' not allowed", "not allowed"):
		return skill.Unsafe("unsafe", "%v", f)
	case has("dubious ownership"):
		return skill.Unsafe("unsafe_owner", "%v", f).WithHint("the repository belongs to another user; change its owner")
	case has("not a git repository", "does not appear to be a git repository"):
		return notRepository("%v", f)
	case has("authentication failed", "could not read username", "permission denied (publickey", "terminal prompts disabled", "returned error: 401", "returned error: 403"):
		return &skill.Error{Code: "authentication", Message: f.Error(), Exit: protocol.ExitDenied,
			Hint: "the remote wants a credential that this call does not have"}
	case has("could not resolve host", "connection refused", "connection timed out", "failed to connect", "couldn't connect", "network is unreachable",
		"unable to connect", "connection reset", "early eof", "the remote end hung up", "rpc failed", "empty reply", "transfer closed",
		"operation timed out", "host key verification failed", "returned error: 5"):
		return skill.Network("%v", f).WithHint("try again; if it goes on, look whether the network policy of the sprite lets it reach that host, and at the proxy")
	case has("repository '") && has("' not found"):
		return notFound("not_a_repository", "%v", f).WithHint("look at the URL; a repository that only its members may read looks the same")
	case has("couldn't find remote ref", "remote branch", "not our ref"):
		return notFound("ref_not_found", "%v", f).WithHint("look at the name; git.clone without branch and ref takes the remote's HEAD")
	}
	for _, cause := range []struct {
		text  string
		errno syscall.Errno
	}{
		{"no space left on device", syscall.ENOSPC}, {"out of diskspace", syscall.ENOSPC}, {"disk quota exceeded", syscall.EDQUOT}, {"read-only file system", syscall.EROFS},
		{"input/output error", syscall.EIO}, {"insufficient permission", syscall.EACCES}, {"permission denied", syscall.EACCES},
	} {
		if has(cause.text) {
			return skill.Fault(because{f, cause.errno})
		}
	}
	return f
}

// couldNotWrite reports whether git failed to write a file; it does not always say why.
func (f *failure) couldNotWrite() bool {
	return strings.Contains(f.stderr, "couldn't write") || strings.Contains(f.stderr, "nable to write") || strings.Contains(f.stderr, "write error")
}

// isFull reports whether the disk below a folder has next to nothing left, now that git has removed its lock files.
func isFull(dir string) bool {
	const nothing = 64 << 10
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && int64(st.Bavail)*int64(st.Bsize) < nothing
}

// because is a failure whose cause is known; it reads like the failure.
type because struct {
	*failure
	errno syscall.Errno
}

func (b because) Unwrap() error { return b.errno }

// explain turns a *failure into a failure of the call with this code.
func explain(err error, code string) error {
	if f, ok := err.(*failure); ok {
		return skill.Failed(code, "%v", f)
	}
	return err
}

func notRepository(format string, args ...any) error {
	return notFound("not_a_repository", format, args...).WithHint("clone or init the repository first, and name its top folder")
}

func notFound(code, format string, args ...any) *skill.Error {
	e := skill.NotFound(format, args...)
	e.Code = code
	return e
}

// lineWriter keeps what git says and shows it line by line; progress ends its lines with \r.
type lineWriter struct {
	to     *proc.Head
	follow func(string)
	line   []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	if w.follow == nil {
		return w.to.Write(p)
	}
	for rest := p; len(rest) > 0; {
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			w.line = append(w.line, rest[:min(len(rest), maxDiag-min(len(w.line), maxDiag))]...)
			break
		}
		w.follow(strings.TrimSpace(string(append(w.line, rest[:i]...))))
		w.line, rest = w.line[:0], rest[i+1:]
	}
	return w.to.Write(p)
}

// inside reports whether a path, symlinks resolved, lies in the workspace, and returns it resolved.
func inside(root, name string) (string, bool) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", false
	}
	rel, err := filepath.Rel(root, real)
	return real, err == nil && filepath.IsLocal(rel)
}
