package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// WorkDir resolves the cwd of an input: a folder of the workspace, absolute and free of symlinks. An empty one is the
// run's repository when it is there, else the workspace.
func WorkDir(c *skill.Call, cwd string) (string, error) {
	if cwd == "" {
		cwd = "."
		if info, err := c.Root.Stat("repo"); err == nil && info.IsDir() {
			cwd = "repo"
		}
	}
	info, err := c.Root.Stat(cwd)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", skill.BadInput("/cwd", "%s is not a folder", cwd)
	}
	abs, err := c.Root.Abs(cwd)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// Argv reads a command: a string goes to the shell, an array is program and arguments. It returns the command
// as a person would write it, and the command to run. The program is looked up on the PATH of env.
func Argv(raw json.RawMessage, env []string) (shown, argv []string, err error) {
	var line string
	if json.Unmarshal(raw, &line) == nil {
		if strings.TrimSpace(line) == "" || strings.ContainsRune(line, 0) {
			return nil, nil, skill.BadInput("/command", "is empty or contains a NUL byte")
		}
		shown = []string{"sh", "-c", line}
	} else if json.Unmarshal(raw, &shown) != nil || len(shown) == 0 || shown[0] == "" {
		return nil, nil, skill.BadInput("/command", "is neither a string nor an array of program and arguments")
	}
	for i, word := range shown {
		if strings.ContainsRune(word, 0) {
			return nil, nil, skill.BadInput(fmt.Sprintf("/command/%d", i), "contains a NUL byte")
		}
	}
	argv, err = Resolve(shown, env)
	return shown, argv, err
}

// Resolve replaces the program by its path. One with a slash is taken as it is, relative to the working directory.
func Resolve(command, env []string) ([]string, error) {
	argv := append([]string{}, command...)
	if strings.Contains(argv[0], "/") {
		return argv, nil
	}
	found, err := LookPath(argv[0], Getenv(env, "PATH", DefaultPath))
	if err != nil {
		return nil, fault.Unsupported("unsupported", "%v", err).WithHint("install it in the image, or name it by its path")
	}
	argv[0] = found
	return argv, nil
}

// Transcript is a file with the output of a program, up to a limit. It lies in the runtime's folder of the
// workspace, because output of programs is no protocol and never reaches a skill's stdout.
type Transcript struct {
	Path    string // relative to the workspace
	Limit   int64
	file    *os.File
	written int64
	total   int64
}

// TranscriptPath names a file of this call below the transcripts' folder.
func TranscriptPath(c *skill.Call, suffix string) string {
	id := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return '_'
	}, c.ID)
	return protocol.TranscriptDir + "/" + id + suffix
}

// OpenTranscript creates the file. It removes an existing file or link first.
func OpenTranscript(c *skill.Call, suffix string, limit int64) (*Transcript, error) {
	t := &Transcript{Path: TranscriptPath(c, suffix), Limit: limit}
	if err := c.Root.MkdirAll(protocol.TranscriptDir); err != nil {
		return nil, err
	}
	if err := c.Root.Remove(t.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var err error
	t.file, err = c.Root.OpenFile(t.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return t, err
}

// Write keeps the bytes below the limit and counts the rest.
func (t *Transcript) Write(p []byte) (int, error) {
	t.total += int64(len(p))
	keep := min(int64(len(p)), t.Limit-t.written)
	n, err := t.file.Write(p[:keep])
	t.written += int64(n)
	return len(p), err
}

// Total counts all bytes written, kept or not.
func (t *Transcript) Total() int64 { return t.total }

// Omitted counts the bytes that were not kept.
func (t *Transcript) Omitted() int64 { return t.total - t.written }

// Close closes the file.
func (t *Transcript) Close() error { return t.file.Close() }

// Lines hands complete lines, without their end, to a function; longer ones are cut at Max bytes.
type Lines struct {
	Max  int
	Each func(line string)
	Cut  bool // the line that Each is given was longer
	line []byte
}

// Write never fails.
func (l *Lines) Write(p []byte) (int, error) {
	for _, b := range p {
		switch {
		case b == '\n':
			l.Flush()
		case len(l.line) < l.Max:
			l.line = append(l.line, b)
		default:
			l.Cut = true
		}
	}
	return len(p), nil
}

// Flush hands over a last line that has no end.
func (l *Lines) Flush() {
	if len(l.line) > 0 {
		l.Each(strings.TrimSuffix(string(l.line), "\r"))
	}
	l.line, l.Cut = l.line[:0], false
}
