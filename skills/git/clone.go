package git

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/skills/git/remote"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

type cloneInput struct {
	URL          string             `json:"url"`
	Dest         string             `json:"dest"`
	Branch       string             `json:"branch"`
	Ref          string             `json:"ref"`
	Depth        int                `json:"depth"`
	SingleBranch *bool              `json:"single_branch"` // nil: as git, with depth
	Tags         bool               `json:"tags"`
	Filter       string             `json:"filter"`
	Reference    string             `json:"reference"`
	Insecure     bool               `json:"insecure"`
	RemoteURL    string             `json:"remote_url"`
	Engine       string             `json:"engine"`
	TimeoutMS    int                `json:"timeout_ms"`
	Credential   *remote.Credential `json:"credential"`
	Limits       engine.Limits      `json:"limits"`
}

type cloneData struct {
	Dest string `json:"dest"`
	engine.Cloned
	Remote  origin `json:"remote"`
	Already bool   `json:"already"`
	Engine  string `json:"engine"`
}

// origin is the remote of a clone.
type origin struct {
	Name string `json:"name"`
	URL  string `json:"url"` // without credentials
}

// originName is the name that git gives it.
const originName = "origin"

// Clone is git.clone. It clones into a scratch folder and renames that into place, so that a destination is complete or
// missing. The workspace removes the folder of a killed clone.
func (f family) Clone(ctx context.Context, c *skill.Call, in cloneInput) (*cloneData, error) {
	spec, err := in.toSpec(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel, err := withTimeout(ctx, in.TimeoutMS)
	if err != nil {
		return nil, err
	}
	defer cancel()
	from, release, err := remote.Open(ctx, c, in.URL, "/url", in.Insecure, in.Credential, remote.NetPermission)
	if err != nil {
		return nil, err
	}
	defer release()
	spec.From, spec.RemoteURL = from, remote.WithoutUser(cmp.Or(in.RemoteURL, from.URL))
	dest, err := c.Root.Rel(cmp.Or(in.Dest, defaultRepo))
	if err != nil {
		return nil, err
	}
	if err := guard.CheckDest(c, dest, "a clone"); err != nil {
		return nil, err
	}
	e, err := f.pickEngine(ctx, c, in.Engine)
	if err != nil {
		return nil, err
	}
	if err := c.Root.MkdirAll(filepath.Dir(dest)); err != nil {
		return nil, err
	}
	entries, err := c.Root.List(dest)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 {
		return f.findClone(ctx, c, e, in, spec, dest)
	}
	data, err := cloneInto(ctx, c, e, spec, dest)
	if err != nil {
		return nil, err
	}
	return data.emitCommit(c)
}

// cloneInto clones into a scratch folder and renames it into place.
func cloneInto(ctx context.Context, c *skill.Call, e engine.Engine, spec engine.CloneSpec, dest string) (cloneData, error) {
	data := cloneData{Dest: dest, Remote: origin{originName, spec.RemoteURL}, Engine: e.Name()}
	parent, ok := guard.Inside(c.Root.Dir(), filepath.Join(c.Root.Dir(), filepath.Dir(dest)))
	if !ok {
		return data, fault.Unsafe("unsafe_path", "%s leads out of the workspace", dest)
	}
	work, release, err := c.Root.Scratch(filepath.Dir(dest))
	if err != nil {
		return data, err
	}
	defer release()
	spec.Dir = work
	if data.Cloned, err = e.Clone(ctx, spec); err != nil {
		return data, err
	}
	if err := guard.ExcludeOwn(c.Root, filepath.Join(work, ".git")); err != nil {
		return data, err
	}
	data.Files = guard.CountFiles(c.Root, filepath.Join(work, ".git"))
	if err := os.Rename(work, filepath.Join(parent, filepath.Base(dest))); err != nil {
		return data, fmt.Errorf("put the clone in place: %w", err)
	}
	return data, nil
}

// toSpec validates the input alone.
func (in *cloneInput) toSpec(c *skill.Call) (engine.CloneSpec, error) {
	spec := engine.CloneSpec{
		Root: c.Root, Branch: in.Branch, Ref: in.Ref, Depth: in.Depth, SingleBranch: in.Depth > 0, Tags: in.Tags, Filter: in.Filter, Limits: in.Limits,
		Follow: reportProgress(c),
	}
	if in.SingleBranch != nil {
		spec.SingleBranch = *in.SingleBranch
	}
	if in.Depth < 0 {
		return spec, skill.BadInput("/depth", "is negative")
	}
	if in.Branch != "" {
		if err := guard.CheckRef(in.Branch, "/branch"); err != nil {
			return spec, err
		}
	}
	if in.Ref != "" && !engine.IsCommitID(in.Ref) {
		if err := guard.CheckRef(in.Ref, "/ref"); err != nil {
			return spec, err
		}
	}
	if in.Filter != "" && !isFilter(in.Filter) {
		return spec, fault.Unsafe("unsafe", "/filter %q is not a filter", in.Filter).WithHint("use blob:none, blob:limit=1m or tree:0")
	}
	if in.Reference != "" {
		from, err := remote.LocalSource(c, in.Reference)
		if err == nil && from.Bundle {
			err = engine.NotRepository("/reference %s is a file", in.Reference)
		}
		if err != nil {
			return spec, err
		}
		spec.Reference = from.URL
	}
	if in.RemoteURL != "" {
		if _, _, err := remote.ParseURL(in.RemoteURL, "/remote_url", false); err != nil {
			return spec, err
		}
	}
	return spec, nil
}

// isFilter accepts the filters of partial clones: blob:none, blob:limit=N[kmg], tree:N.
func isFilter(text string) bool {
	if text == "blob:none" {
		return true
	}
	number, ok := strings.CutPrefix(text, "blob:limit=")
	if ok {
		number = strings.TrimRight(number, "kmg")
	} else if number, ok = strings.CutPrefix(text, "tree:"); !ok {
		return false
	}
	_, err := strconv.ParseUint(number, 10, 32)
	return err == nil
}

// findClone returns the result for a destination that already holds this clone.
func (f family) findClone(ctx context.Context, c *skill.Call, e engine.Engine, in cloneInput, spec engine.CloneSpec, dest string) (*cloneData, error) {
	taken := fault.Failed("dest_exists", "%s is not empty and is not a clone of that repository", dest).
		WithHint("name another dest, or remove that folder")
	ctx, r, err := f.openRepo(ctx, c, on{Repo: dest, Engine: in.Engine})
	if fault.HasCode(err, "not_a_repository") {
		return nil, taken
	}
	if err != nil {
		return nil, err
	}
	defer r.close()
	data := cloneData{Dest: dest, Already: true, Engine: e.Name()}
	url, _ := r.config.Value("remote", originName, "url")
	data.Remote = origin{originName, remote.WithoutUser(url)}
	head, err := r.Resolve(ctx, "HEAD")
	if err != nil && !fault.HasCode(err, "ref_not_found") {
		return nil, err
	}
	data.Head, data.Branch = head.Commit, strings.TrimPrefix(head.Ref, "refs/heads/")
	want := spec.Ref
	if !engine.IsCommitID(want) {
		refs, err := e.Refs(ctx, spec.From)
		if err != nil {
			return nil, err
		}
		want = findCommit(refs, cmp.Or(spec.Ref, spec.Branch), spec.From.Bundle)
	}
	if data.Remote.URL != spec.RemoteURL || data.Head != want || spec.Branch != "" && data.Branch != spec.Branch {
		return nil, taken
	}
	data.Files = guard.CountFiles(c.Root, r.at.GitDir)
	_, err = os.Lstat(filepath.Join(r.at.CommonDir, "shallow"))
	data.Shallow = err == nil
	return data.emitCommit(c)
}

// findCommit returns the commit of a name, or of HEAD, in a source. A bundle may contain HEAD alone.
func findCommit(refs []engine.Ref, name string, bundle bool) string {
	at := map[string]string{}
	for _, ref := range refs {
		at[ref.Name] = cmp.Or(ref.Peeled, ref.ID)
	}
	if name == "" {
		return at["HEAD"]
	}
	found := cmp.Or(at["refs/tags/"+name], at["refs/heads/"+name])
	if found == "" && bundle {
		found = at["HEAD"]
	}
	return found
}

// emitCommit reports the commit as an artifact and returns the result.
func (data cloneData) emitCommit(c *skill.Call) (*cloneData, error) {
	if data.Head == "" {
		return &data, nil
	}
	metadata, err := json.Marshal(map[string]any{"branch": data.Branch, "url": data.Remote.URL})
	if err != nil {
		return nil, fmt.Errorf("describe the clone: %w", err)
	}
	return &data, c.Emit(protocol.Artifact{Kind: "commit", Ref: data.Head, Metadata: metadata})
}
