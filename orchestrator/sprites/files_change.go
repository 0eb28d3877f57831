package sprites

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// Files are the calls about files; see [Client.Files].
type Files struct{ *transport }

// Stat describes a file, or a folder; a link is followed. The API has no call for that: it is found in lists.
func (c Files) Stat(ctx context.Context, name, file string) (FileInfo, error) {
	file = path.Clean("/" + file)
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	if file != "/" {
		query := pathQuery(path.Dir(file))
		query.Set("pattern", globQuoter.Replace(path.Base(file)))
		// Where the folder cannot be listed, the file perhaps can.
		if entries, _, err := c.listFiles(ctx, name, query); err == nil {
			for _, e := range entries {
				if e.Name == path.Base(file) && e.Type != "symlink" {
					return e, nil
				}
			}
		}
	}
	entries, _, err := c.listFiles(ctx, name, pathQuery(file))
	if err != nil {
		return FileInfo{}, describeError(err, "look at %s in %s", file, name)
	}
	if len(entries) == 1 && entries[0].Path == file {
		return entries[0], nil
	}
	return FileInfo{Name: path.Base(file), Path: file, Type: "directory", IsDir: true}, nil // a link to it, or the root
}

// globQuoter escapes the special characters of a pattern.
var globQuoter = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// CopyOptions say how Copy copies.
type CopyOptions struct {
	Recursive     bool // folders, too
	PreserveAttrs bool // times, besides the permissions that are always kept
}

// Copied is the result of Copy.
type Copied struct {
	Files      []CopiedFile `json:"copied"` // the first of them, when there are very many
	Count      int          `json:"count"`
	TotalBytes int64        `json:"totalBytes"`
}

// CopiedFile is one file that was copied.
type CopiedFile struct {
	Source string `json:"source"`
	Dest   string `json:"dest"`
}

// Copy copies a file, or with Recursive a tree, within a sprite. It makes the folders above dest. It replaces a file at dest,
// and merges into a folder there.
func (c Files) Copy(ctx context.Context, name, source, dest string, o CopyOptions) (Copied, error) {
	var out Copied
	err := c.changeFiles(ctx, name, "copy", fileChange{Source: source, Dest: dest, Recursive: o.Recursive, PreserveAttrs: o.PreserveAttrs}, &out)
	return out, describeError(err, "copy %s to %s in %s", source, dest, name)
}

// Rename moves a file or folder within a sprite. A file at dest is replaced.
func (c Files) Rename(ctx context.Context, name, source, dest string) error {
	return describeError(c.changeFiles(ctx, name, "rename", fileChange{Source: source, Dest: dest}, nil), "rename %s to %s in %s", source, dest, name)
}

// Chmod sets the permission bits of a file, or with recursive of a tree, in which links are left alone.
func (c Files) Chmod(ctx context.Context, name, file string, mode uint32, recursive bool) error {
	in := fileChange{Path: file, Mode: fmt.Sprintf("%04o", mode&0o7777), Recursive: recursive}
	return describeError(c.changeFiles(ctx, name, "chmod", in, nil), "change the mode of %s in %s", file, name)
}

// Chown gives a file, or with recursive a tree, to a user and a group: numbers or names, "" to leave one as it is. A sprite
// without rights of root can only give its own files to itself.
func (c Files) Chown(ctx context.Context, name, file, user, group string, recursive bool) error {
	in := fileChange{Path: file, UID: accountOf(user), GID: accountOf(group), Recursive: recursive}
	return describeError(c.changeFiles(ctx, name, "chown", in, nil), "change the owner of %s in %s", file, name)
}

// Mkdir makes a folder and those above it. The API has no call for that: a file is written into it and removed.
func (c Files) Mkdir(ctx context.Context, name, dir string) error {
	keep := path.Join(dir, ".keep")
	if err := c.WriteFile(ctx, name, keep, strings.NewReader(""), 0o644); err != nil {
		return err
	}
	return c.Remove(ctx, name, keep, false)
}

// fileChange is the body of the calls that change files.
type fileChange struct {
	Path          string `json:"path,omitempty"`
	Source        string `json:"source,omitempty"`
	Dest          string `json:"dest,omitempty"`
	WorkingDir    string `json:"workingDir"`
	Mode          string `json:"mode,omitempty"`
	UID           any    `json:"uid,omitempty"` // number or name
	GID           any    `json:"gid,omitempty"`
	Recursive     bool   `json:"recursive,omitempty"`
	PreserveAttrs bool   `json:"preserveAttrs,omitempty"`
}

func accountOf(text string) any {
	if text == "" {
		return nil
	}
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return n
	}
	return text
}

func (c Files) changeFiles(ctx context.Context, name, call string, in fileChange, out any) error {
	in.WorkingDir = "/"
	again := call == "chmod" || call == "chown"
	return c.sendRequest(ctx, request{method: http.MethodPost, path: spritePath(name, "fs", call), in: in, again: again}, out)
}
