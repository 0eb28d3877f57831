package gitcmd

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Failure is a git command that ended with an exit code that the caller did not expect.
type Failure struct {
	Code   int
	Stderr string // one line
	verb   string
}

func (f *Failure) Error() string {
	if f.Stderr == "" {
		return fmt.Sprintf("git %s ended with code %d", f.verb, f.Code)
	}
	return fmt.Sprintf("git %s: %s", f.verb, f.Stderr)
}

// Says reports whether git's message contains one of the texts.
func (f *Failure) Says(texts ...string) bool { return containsAny(f.Stderr, texts) }

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
}

// Explain turns a *Failure into a failure of the call with this code and returns any other error as it is.
func Explain(err error, code string) error {
	if f, ok := err.(*Failure); ok {
		return fault.Failed(code, "%v", f)
	}
	return err
}

// verbOf returns the sub-command, which follows the options of git itself.
func verbOf(args []string) string {
	for i := 0; i < len(args); i++ {
		if args[i] == "-c" || args[i] == "-C" {
			i++
		} else if !strings.HasPrefix(args[i], "-") {
			return args[i]
		}
	}
	return ""
}

// oneLine joins the last lines of stderr for a message. It omits hints and progress and masks secrets.
func oneLine(stderr []byte, hide []string) string {
	var lines []string
	for line := range strings.FieldsFuncSeq(string(stderr), func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(strings.ToValidUTF8(line, "\uFFFD"))
		if line != "" && !strings.HasPrefix(line, "hint:") && !strings.HasPrefix(line, "Cloning into ") {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines[max(0, len(lines)-8):], "; ")
	for _, secret := range hide {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// classifyFailure turns failures that all callers treat alike into a *skill.Error with a code. The texts are git's own in the C
// locale.
func classifyFailure(f *Failure) error {
	text := strings.ToLower(f.Stderr)
	has := func(parts ...string) bool { return containsAny(text, parts) }
	switch {
	case has(".lock': file exists", "another git process"), has("cannot lock ref") && has("but expected"):
		return engine.Locked("%v", f)
	case has("transport 'file' not allowed", "transport 'ext' not allowed", "not allowed"):
		return fault.Unsafe("unsafe", "%v", f)
	case has("dubious ownership"):
		return fault.Unsafe("unsafe_owner", "%v", f).WithHint("the repository belongs to another user; change its owner")
	case has("not a git repository", "does not appear to be a git repository"):
		return engine.NotRepository("%v", f)
	case has("authentication failed", "could not read username", "permission denied (publickey", "terminal prompts disabled", "returned error: 401", "returned error: 403"):
		return engine.Authentication("%v", f)
	case has("certificate verif", "ssl certificate problem", "certificate problem", "host key verification failed", "no alternative certificate subject"):
		return engine.Untrusted("%v", f)
	case has("could not resolve host", "connection refused", "connection timed out", "failed to connect", "couldn't connect", "network is unreachable",
		"unable to connect", "connection reset", "early eof", "the remote end hung up", "rpc failed", "empty reply", "transfer closed",
		"operation timed out", "returned error: 5"):
		return engine.Unreachable("%v", f)
	case has("repository '") && has("' not found", "' does not exist"):
		return engine.NotRepositoryURL("%v", f)
	case has("couldn't find remote ref", "remote branch", "not our ref"):
		return engine.RefNotFound("%v", f)
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

// isFull reports whether the disk of a folder is nearly full after git has removed its lock files.
func isFull(dir string) bool {
	const minFree = 64 << 10
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && int64(st.Bavail)*int64(st.Bsize) < minFree
}

// because is a failure with a known cause; its message is that of the failure.
type because struct {
	*Failure
	errno syscall.Errno
}

func (b because) Unwrap() error { return b.errno }
