package git

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/skills/git/remote"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// outDir is where bundles wait for the orchestrator.
const outDir = protocol.Dir + "/out"

const (
	modeRequest = "request"
	modeDirect  = "direct"

	forceNo        = "no"
	forceWithLease = "with-lease"
)

type pushInput struct {
	on
	Refspecs     []string           `json:"refspecs"`
	Force        string             `json:"force"`
	SetUpstream  bool               `json:"set_upstream"`
	DryRun       bool               `json:"dry_run"`
	Credential   *remote.Credential `json:"credential"`
	Branch       string             `json:"branch"`
	Base         string             `json:"base"`
	Ref          string             `json:"ref"`
	Mode         string             `json:"mode"`
	Title        string             `json:"title"`
	Remote       string             `json:"remote"`
	ExpectRemote string             `json:"expect_remote"`
	Also         []alsoInput        `json:"also"`
}

type pushData struct {
	about
	Pushed []engine.PushedRef `json:"pushed"`
	Branch string             `json:"branch"`
	Base   string             `json:"base"`
	Head   string             `json:"head"`
	URL    string             `json:"url,omitempty"`
	Result json.RawMessage    `json:"result,omitempty"`
}

// pushAnswer is the answer to a push that waited: the result of the action, or the decision of a person.
type pushAnswer struct {
	OK       *bool           `json:"ok"`
	Action   string          `json:"action"`
	Result   json.RawMessage `json:"result"`
	Error    *protocol.Fault `json:"error"`
	Approved *bool           `json:"approved"`
	Comments string          `json:"comments"`
}

// Push is git.push. Called again after WAITING, it returns the answer and pushes nothing.
func (f family) Push(ctx context.Context, c *skill.Call, in pushInput) (*pushData, error) {
	if err := in.checkInput(); err != nil {
		return nil, err
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if in.Mode == modeDirect {
		return r.pushDirectly(ctx, c, in)
	}
	p, err := r.planPush(ctx, &in, c.Resume != nil)
	if err != nil {
		return nil, err
	}
	if c.Resume != nil {
		return readAnswer(c, p)
	}
	also, err := f.bundleAlso(ctx, c, in.Also)
	if err != nil {
		return nil, err
	}
	return r.requestPush(ctx, c, in, p, also)
}

// checkInput validates the input alone.
func (in *pushInput) checkInput() error {
	switch in.Mode = cmp.Or(in.Mode, modeRequest); in.Mode {
	case modeDirect:
		if len(in.Also) > 0 {
			return skill.BadInput("/also", `is for the mode "request"`)
		}
	case modeRequest:
		if err := checkAlso(in.Also); err != nil {
			return err
		}
		if len(in.Refspecs) > 0 || in.SetUpstream || in.DryRun || in.Credential != nil || in.Force != "" {
			return skill.BadInput("/mode", `is request: refspecs, force, set_upstream, dry_run and credential are for "direct"`)
		}
	default:
		return skill.BadInput("/mode", "%q is not one of request, direct", in.Mode)
	}
	if in.ExpectRemote != "" && in.ExpectRemote != "0" && !engine.IsCommitID(in.ExpectRemote) {
		return skill.BadInput("/expect_remote", "is not a full commit id")
	}
	if in.Force = cmp.Or(in.Force, forceNo); in.Force != forceNo && in.Force != forceWithLease {
		return skill.BadInput("/force", "%q is not one of no, with-lease", in.Force)
	}
	if len(in.Refspecs) > 0 && (in.Branch != "" || in.Ref != "" || in.Base != "" || in.ExpectRemote != "" || in.SetUpstream) {
		return skill.BadInput("/refspecs", "name the refs to push: branch, ref, base, expect_remote and set_upstream are for a push of one branch")
	}
	for _, name := range []struct{ value, pointer string }{{in.Branch, "/branch"}, {in.Ref, "/ref"}} {
		if name.value == "" {
			continue
		}
		if err := guard.CheckRef(name.value, name.pointer); err != nil {
			return err
		}
	}
	if in.Base == "" || engine.IsCommitID(in.Base) {
		return nil
	}
	return guard.CheckRef(in.Base, "/base")
}

// planPush finds the commits to push and their branch. It fails when there are none, unless they were pushed already.
func (r *repo) planPush(ctx context.Context, in *pushInput, pushed bool) (pushData, error) {
	p, err := r.pushHead(ctx, in)
	if err != nil {
		return p, err
	}
	if p.Base, err = r.findBase(ctx, in.Base); err != nil || pushed {
		return p, err
	}
	if p.Base == "" {
		return p, skill.BadInput("/base", "is required: the branch has no upstream and origin no HEAD")
	}
	if p.Base == p.Head {
		return p, fault.Failed("nothing_to_push", "%s is at %s, which the remote has", in.Ref, p.Head).
			WithHint("commit something first, or name an older base")
	}
	common, err := r.MergeBase(ctx, engine.MergeBaseSpec{Commits: []string{p.Base, p.Head}})
	if err == nil && !common.IsAncestor {
		return p, fault.Failed("base_not_ancestor", "%s does not build upon %s", in.Ref, p.Base).
			WithHint("rebase onto the base, or name the commit that the work started from")
	}
	return p, err
}

// pushHead finds the commit to push and its branch, and makes in.Ref a full name.
func (r *repo) pushHead(ctx context.Context, in *pushInput) (pushData, error) {
	p := pushData{about: r.describe(), Pushed: []engine.PushedRef{}}
	from := "HEAD"
	if in.Ref != "" {
		from = "refs/heads/" + in.Ref
	}
	head, err := r.Resolve(ctx, from)
	if err != nil {
		return p, err
	}
	current, _ := strings.CutPrefix(head.Ref, "refs/heads/")
	if p.Branch = cmp.Or(in.Branch, in.Ref, current); p.Branch == "" {
		return p, skill.BadInput("/branch", "is required: HEAD is on no branch")
	}
	in.Ref, p.Head = from, head.Commit
	return p, guard.CheckRef(p.Branch, "/branch")
}

// findBase returns the commit that the remote has, "" when it is unknown. A name means the remote-tracking branch rather
// than the local one, which may have moved.
func (r *repo) findBase(ctx context.Context, name string) (string, error) {
	candidates := []string{"@{upstream}", "refs/remotes/origin/HEAD"}
	if name != "" {
		candidates = []string{"refs/remotes/origin/" + name, name}
	}
	for _, candidate := range candidates {
		found, err := r.Resolve(ctx, candidate)
		if err == nil && found.Commit != "" {
			return found.Commit, nil
		}
		if err != nil && !fault.HasCode(err, "ref_not_found") {
			return "", err
		}
	}
	if name != "" {
		return "", engine.RefNotFound("/base %s names no commit in %s", name, r.at.Name)
	}
	return "", nil
}

// requestPush writes the bundle, requests the push, and waits.
func (r *repo) requestPush(ctx context.Context, c *skill.Call, in pushInput, p pushData, also []protocol.AlsoPush) (*pushData, error) {
	name := outDir + "/" + p.Head + ".bundle"
	digest, err := r.writeBundle(ctx, c, name, engine.BundleSpec{Base: p.Base, Ref: in.Ref})
	if err != nil {
		return nil, err
	}
	if in.Title == "" {
		log, err := r.Log(ctx, engine.LogSpec{Revisions: []string{p.Head}, Max: 1, Short: true})
		if err != nil {
			return nil, err
		}
		for _, newest := range log.Commits {
			in.Title = strings.ToValidUTF8(newest.Subject, "\uFFFD")
		}
	}
	parameters, err := json.Marshal(protocol.PushBranch{
		Branch: p.Branch, Base: p.Base, Head: p.Head, Bundle: c.Root.Own(name), SHA256: digest, Title: in.Title, Also: also,
	})
	if err != nil {
		return nil, fmt.Errorf("describe the push: %w", err)
	}
	expected := map[string]string{"ok": "boolean", "action": "string", "result": "map", "error": "map"}
	return nil, c.Suspend(ctx, protocol.ActionPushBranch, expected, &protocol.ActionRequest{
		Action: protocol.ActionPushBranch, Parameters: parameters, Blocking: true,
	})
}

// writeBundle writes base..ref to a file of the workspace and returns its sha256. The engine writes to a pipe, because a
// process of the sprite may have placed a link at the path.
func (r *repo) writeBundle(ctx context.Context, c *skill.Call, name string, spec engine.BundleSpec) (string, error) {
	if err := c.Root.MkdirAll(outDir); err != nil {
		return "", err
	}
	read, write := io.Pipe()
	made := make(chan error, 1)
	go func() {
		err := r.Bundle(ctx, spec, write)
		write.CloseWithError(err)
		made <- err
	}()
	sum := sha256.New()
	_, err := c.Root.WriteFrom(name, io.TeeReader(read, sum), 0o644)
	read.CloseWithError(io.ErrClosedPipe)
	gitErr := <-made
	switch {
	case err != nil && gitErr != nil && errors.Is(err, gitErr):
		return "", gitErr
	case err != nil: // of the file; the engine ended because its pipe closed
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// readAnswer returns the result of a push that the orchestrator executed or refused. p is the push that the call would make now: the
// branch may have moved while the call waited.
func readAnswer(c *skill.Call, p pushData) (*pushData, error) {
	var a pushAnswer
	if err := c.Inputs(&a); err != nil {
		return nil, err
	}
	if a.OK == nil || !*a.OK {
		return nil, refusalOf(a)
	}
	var result struct {
		pushed
		Also []pushed `json:"also"`
	}
	if len(a.Result) > 0 {
		if err := json.Unmarshal(a.Result, &result); err != nil {
			return nil, skill.BadInput("/result", "is not what a push answers: %v", err)
		}
	}
	p.Result, p.URL = a.Result, remote.WithoutUser(result.URL)
	p.Branch, p.Head = cmp.Or(result.Branch, p.Branch), cmp.Or(result.Head, p.Head)
	p.Pushed = []engine.PushedRef{{Ref: "refs/heads/" + p.Branch, Old: result.Old, New: p.Head, Status: cmp.Or(result.Status, "ok")}}
	for _, one := range result.Also {
		p.Pushed = append(p.Pushed, engine.PushedRef{Ref: "refs/heads/" + one.Branch, Old: one.Old, New: one.Head, Status: cmp.Or(one.Status, "ok")})
		if err := c.Emit(protocol.Artifact{Kind: "branch", Ref: one.Branch, URL: remote.WithoutUser(one.URL)}); err != nil {
			return nil, err
		}
	}
	return p.emitBranch(c)
}

// pushed is the result of the push to one repository.
type pushed struct {
	Branch string `json:"branch"`
	Head   string `json:"head"`
	Old    string `json:"old"`
	Status string `json:"status"`
	URL    string `json:"url"`
}

// refusalOf returns the error for a push that failed or was not approved.
func refusalOf(a pushAnswer) error {
	switch {
	case a.Error != nil && a.Error.Code != "":
		e := fault.Failed(a.Error.Code, "the push was refused: %s", cmp.Or(a.Error.Message, a.Error.Code))
		e.Retryable = a.Error.Retryable
		if len(a.Error.Details) > 0 {
			e.Details = a.Error.Details
		}
		return e.WithHint("%s", a.Error.Hint)
	case a.Approved != nil && *a.Approved:
		return fault.Failed("not_pushed", "the push was approved, but there is no report that it was done")
	case a.Comments != "":
		return fault.Failed("rejected", "the push was rejected: %s", a.Comments)
	}
	return fault.Failed("rejected", "the push was rejected")
}

// emitBranch reports the pushed branch as an artifact and returns the result.
func (p pushData) emitBranch(c *skill.Call) (*pushData, error) {
	metadata, err := json.Marshal(map[string]any{"commit": p.Head, "base": p.Base})
	if err != nil {
		return nil, fmt.Errorf("describe the push: %w", err)
	}
	return &p, c.Emit(protocol.Artifact{Kind: "branch", Ref: p.Branch, URL: p.URL, Metadata: metadata})
}
