package system

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
)

// maxRecords bounds the list of changed files, in bytes: about a hundred thousand files.
const maxRecords = 32 << 20

// diffOutput receives the output of git diff, log and show with -z: NUL-terminated header fields of our own format, then
// the records of --raw and --numstat, then an empty field and the patch. It keeps the patch up to a limit.
type diffOutput struct {
	header int   // fields before the records
	limit  int64 // bytes of the patch that are kept

	records  []byte // header fields and records, each with its NUL
	fields   int    // complete ones in records
	length   int    // of the field that is being read
	inPatch  bool
	patch    []byte
	overflow bool // the records alone are too many
	cut      bool // the patch is longer than limit
}

// Write never fails.
func (d *diffOutput) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && !d.inPatch {
		end := bytes.IndexByte(p, 0)
		if end < 0 {
			d.length += len(p)
			d.appendRecord(p)
			return n, nil
		}
		if d.length += end; d.length == 0 && d.fields >= d.header {
			d.inPatch = true
		} else {
			d.appendRecord(p[:end+1])
		}
		d.fields, d.length, p = d.fields+1, 0, p[end+1:]
	}
	room := d.limit - int64(len(d.patch))
	if int64(len(p)) > room {
		d.cut, p = true, p[:room]
	}
	d.patch = append(d.patch, p...)
	return n, nil
}

// appendRecord keeps bytes of header fields or records up to maxRecords.
func (d *diffOutput) appendRecord(p []byte) {
	if len(d.records)+len(p) > maxRecords {
		d.overflow = true
		return
	}
	d.records = append(d.records, p...)
}

// splitFields returns the header fields and the records. Git puts a line break between them.
func (d *diffOutput) splitFields() (header, records []string, err error) {
	fields := gitcmd.Split(d.records)
	if len(fields) < d.header {
		return nil, nil, fmt.Errorf("read git's answer: %d fields, want %d", len(fields), d.header)
	}
	header, records = fields[:d.header], fields[d.header:]
	if d.header > 0 && len(records) > 0 {
		records[0] = strings.TrimPrefix(records[0], "\n")
	}
	return header, records, nil
}

// wholePatch returns the patch, cut after the last file that fits, or after the last line when no file fits.
func (d *diffOutput) wholePatch() []byte {
	if !d.cut {
		return d.patch
	}
	// A line of content begins with a space, a sign or a backslash, never with a d.
	if i := bytes.LastIndex(d.patch, []byte("\ndiff --git ")); i >= 0 {
		return d.patch[:i+1]
	}
	return d.patch[:bytes.LastIndexByte(d.patch, '\n')+1]
}

// parseDiff reads the records of --raw and --numstat -z into one entry for each path, sorted. Either kind may be absent.
// A conflicting file occurs twice, as unmerged and as changed: its entry has status U and the line counts of the change.
func parseDiff(records []string) ([]engine.DiffFile, error) {
	files := []engine.DiffFile{}
	at := map[string]int{}
	entry := func(path, old string) *engine.DiffFile {
		i, ok := at[path]
		if !ok {
			i = len(files)
			at[path] = i
			files = append(files, engine.DiffFile{Path: path, OldPath: old})
		}
		return &files[i]
	}
	for i := 0; i < len(records); i++ {
		bad := fmt.Errorf("read git diff: unexpected record %q", records[i])
		if raw, ok := strings.CutPrefix(records[i], ":"); ok {
			fields := strings.Fields(raw) // modes, ids, status with a score
			if len(fields) != 5 || i+1 >= len(records) {
				return nil, bad
			}
			status, old := fields[4][:1], ""
			if status == "R" || status == "C" {
				i++
				old = records[i]
			}
			if i++; i >= len(records) || records[i] == "" {
				return nil, bad
			}
			if e := entry(records[i], old); e.Status != "U" {
				e.Status = status
			}
			continue
		}
		added, rest, ok := strings.Cut(records[i], "\t")
		removed, path, ok2 := strings.Cut(rest, "\t")
		if !ok || !ok2 {
			return nil, bad
		}
		old := ""
		if path == "" { // renamed: old and new path follow
			if i+2 >= len(records) {
				return nil, bad
			}
			old, path = records[i+1], records[i+2]
			i += 2
		}
		e := entry(path, old)
		if added == "-" && removed == "-" {
			e.Binary = true
			continue
		}
		plus, err := strconv.Atoi(added)
		minus, err2 := strconv.Atoi(removed)
		if err != nil || err2 != nil {
			return nil, bad
		}
		e.Additions, e.Deletions = e.Additions+plus, e.Deletions+minus
	}
	slices.SortFunc(files, func(a, b engine.DiffFile) int { return cmp.Compare(a.Path, b.Path) })
	return files, nil
}

// sumStats adds up the files.
func sumStats(files []engine.DiffFile) engine.Stats {
	s := engine.Stats{Files: len(files)}
	for _, f := range files {
		s.Additions += f.Additions
		s.Deletions += f.Deletions
	}
	return s
}
