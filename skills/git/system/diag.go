package system

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

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
func tidy(stderr []byte, hide []string) string {
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

// classify gives the failures that callers tell apart their code. The texts are git's own in the C locale.
func classify(f *failure) error {
	text := strings.ToLower(f.stderr)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
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
		return fault.Failed(code, "%v", f)
	}
	return err
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

// isNotFound reports whether a failure is that of a name.
func isNotFound(err error) bool {
	var e *skill.Error
	return errors.As(err, &e) && e.Code == "ref_not_found"
}
