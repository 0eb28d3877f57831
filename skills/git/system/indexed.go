package system

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/git/patch"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// maxIndex is the largest index that is read here, in bytes; git lists a larger one.
const maxIndex = 64 << 20

// judgeIndex refuses an index that names files outside the work tree or in .git. Git believes its index: it would write
// and remove such files when it restores, stashes or checks out. An index that is not simple costs one git more.
func (r *repo) judgeIndex(ctx context.Context) error {
	data, err := r.at.Root.ReadFile(filepath.Join(r.at.GitDir, "index"), maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil && !errors.Is(err, workspace.ErrTooLarge) {
		return err
	}
	if format, _ := r.at.Config.Value("extensions", "", "objectformat"); err == nil && (format == "" || format == "sha1") {
		if bad, ok := badEntry(data); ok {
			return r.refuseEntry(bad)
		}
	}
	bad := ""
	out := &records{end: 0, each: func(name []byte) error {
		if bad == "" && isBadEntry(name) {
			bad = string(name)
		}
		return nil
	}}
	_, err = r.in(ctx, command{args: []string{"ls-files", "-z"}, reading: true, stdout: out})
	if err := out.finish(err); err != nil {
		return explain(err, "bad_index")
	}
	return r.refuseEntry(bad)
}

func (r *repo) refuseEntry(name string) error {
	if name == "" {
		return nil
	}
	return skill.Unsafe("unsafe_path", "the index of %s names %q, which %s", r.at.Name, name, patch.Judge(name, false)).
		WithHint("nobody but an attacker makes such an index; clone the repository anew")
}

// badEntry finds the first bad name in an index of version 2 or 3 with sha1 ids; ok is false for any other.
func badEntry(index []byte) (name string, ok bool) {
	const header, entry, extended = 12, 62, 0x4000
	if len(index) < header || string(index[:4]) != "DIRC" {
		return "", false
	}
	version, count := binary.BigEndian.Uint32(index[4:]), binary.BigEndian.Uint32(index[8:])
	if version != 2 && version != 3 {
		return "", false
	}
	at := header
	for range count {
		if at+entry > len(index) {
			return "", false
		}
		start := at + entry
		if binary.BigEndian.Uint16(index[start-2:])&extended != 0 {
			start += 2
		}
		length := bytes.IndexByte(index[min(start, len(index)):], 0)
		if length < 0 {
			return "", false
		}
		if name := index[start : start+length]; isBadEntry(name) {
			return string(name), true
		}
		at += (start - at + length + 8) &^ 7 // padded with one to eight NULs
	}
	return "", true
}

// isBadEntry looks closely at the few names that may be bad.
func isBadEntry(name []byte) bool {
	odd := len(name) == 0 || name[0] == '/' || bytes.Contains(name, []byte("..")) || bytes.Contains(bytes.ToLower(name), []byte(".git"))
	if !odd {
		return false
	}
	text := string(name)
	return patch.Judge(text, false) != "" && !strings.HasSuffix(text, "/") // a folder of a sparse index
}
