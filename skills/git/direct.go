package git

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/skill"
)

// credentialVariable names a file that holds a token: 0600, outside the workspace, removed when it was used.
const credentialVariable = "LATTICE_CREDENTIAL_FILE"

// direct pushes from here. The URL is taken from the configuration once, judged, and given to the engine as such.
func (r *repo) direct(ctx context.Context, c *skill.Call, in pushInput, p pushData) (skill.Result, error) {
	if err := c.Require("git:push"); err != nil {
		return skill.Result{}, err
	}
	if !in.Trust {
		if err := refuseKeys(r.at.Name, r.config, gitconfig.Redirecting()); err != nil {
			return skill.Result{}, err
		}
	}
	if in.ExpectRemote != "" && in.ExpectRemote != "0" && !engine.IsCommitID(in.ExpectRemote) {
		return skill.Result{}, skill.BadInput("/expect_remote", "is no full commit id")
	}
	to, err := r.target(c, cmp.Or(in.Remote, "origin"))
	if err != nil {
		return skill.Result{}, err
	}
	if file := proc.Getenv(c.Env, credentialVariable, ""); file != "" && to.Protocol == "https" {
		token, err := readCredential(c.Root.Dir(), file)
		if err != nil {
			return skill.Result{}, err
		}
		defer os.Remove(file) // a lease is for one use
		to.Credential = &engine.Credential{Username: "x-access-token", Token: token}
	}
	p.Pushed, err = r.Push(ctx, engine.PushSpec{
		To: to, Refs: []engine.PushRef{{From: p.Head, To: "refs/heads/" + p.Branch, Expect: in.ExpectRemote}},
	})
	if err != nil {
		return skill.Result{}, err
	}
	for _, ref := range p.Pushed {
		if ref.Status != engine.PushRejected {
			continue
		}
		code := "rejected"
		if ref.Stale {
			code = "stale"
		}
		return skill.Result{}, skill.Failed(code, "the remote refused the push: %s", ref.Reason).
			WithHint("fetch the branch, rebase onto it and push again")
	}
	if !to.Local {
		p.URL = withoutUser(to.URL)
	}
	return p.done(c)
}

// target is where a remote lies.
func (r *repo) target(c *skill.Call, remote string) (engine.Source, error) {
	if !isRemoteName(remote) {
		return engine.Source{}, skill.Unsafe("unsafe", "/remote %q is no name of a remote", remote)
	}
	text, _ := r.config.Value("remote", remote, "url")
	if text == "" {
		return engine.Source{}, skill.NotFound("%s has no remote %s", r.at.Name, remote)
	}
	src, isRemote, err := parseURL(text, "the remote's URL", false)
	if err != nil || isRemote {
		return src, err
	}
	return localSource(c, cmp.Or(src.URL, text))
}

// readCredential checks the lease and returns the token.
func readCredential(root, file string) (string, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return "", fmt.Errorf("read the credential: %w", err)
	}
	if _, in := inside(root, file); in || !filepath.IsAbs(file) || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || info.Size() > 64<<10 {
		return "", skill.Unsafe("unsafe_credential", "the credential is not a file of mode 0600 outside the workspace")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the credential: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsAny(token, "\r\n\x00") {
		return "", skill.Unsafe("unsafe_credential", "the credential is not one line")
	}
	return token, nil
}
