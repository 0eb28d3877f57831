package git

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/skill"
)

// credentialVariable names a file that holds a token: 0600, outside the workspace, removed when it was used.
const credentialVariable = "LATTICE_CREDENTIAL_FILE"

// helper is a credential helper that reads the token's file, so that the token is in no argument, no environment and
// no configuration. printf is a shell builtin: it shows in no process list.
const helper = `!f() { test "$1" = get && printf 'username=x-access-token\npassword=%s\n' "$(cat "$` + credentialVariable + `")"; }; f`

// direct pushes from here. The URL is taken from the configuration once, judged, and given to git as such.
func (r *repo) direct(ctx context.Context, c *skill.Call, in pushInput, p pushData) (skill.Result, error) {
	if err := c.Require("git:push"); err != nil {
		return skill.Result{}, err
	}
	if err := r.checkConfig(ctx, redirecting, in.Trust); err != nil {
		return skill.Result{}, err
	}
	src, err := r.target(ctx, c, cmp.Or(in.Remote, "origin"))
	if err != nil {
		return skill.Result{}, err
	}
	cmd := command{args: []string{"-c", "http.followRedirects=false"}, allow: src.protocol, ok: []int{1}}
	if file := proc.Getenv(c.Env, credentialVariable, ""); file != "" && src.protocol == "https" {
		token, err := readCredential(c.Root.Dir(), file)
		if err != nil {
			return skill.Result{}, err
		}
		defer os.Remove(file) // a lease is for one use
		r.hide = append(r.hide, token)
		cmd.args = append(cmd.args, "-c", "credential.helper="+helper)
		cmd.env = []string{credentialVariable + "=" + file}
	}
	ref := "refs/heads/" + p.Branch
	cmd.args = append(cmd.args, "push", "--porcelain", "--no-verify", "--no-signed", "--recurse-submodules=no")
	if in.ExpectRemote != "" {
		expect := in.ExpectRemote
		if expect == "0" {
			expect = ""
		} else if !isCommitID(expect) {
			return skill.Result{}, skill.BadInput("/expect_remote", "is no full commit id")
		}
		cmd.args = append(cmd.args, "--force-with-lease="+ref+":"+expect)
	}
	cmd.args = append(cmd.args, "--", src.url, p.Head+":"+ref)
	out, err := r.in(ctx, cmd)
	if err != nil {
		return skill.Result{}, explain(err, "push_failed")
	}
	status, err := parsePush(string(out))
	if err != nil {
		return skill.Result{}, err
	}
	p.Pushed = []pushedRef{{Ref: ref, New: p.Head, Status: status}}
	if !src.local {
		p.URL = withoutUser(src.url)
	}
	return p.done(c)
}

// target is where a remote lies.
func (r *repo) target(ctx context.Context, c *skill.Call, remote string) (source, error) {
	if !isRemoteName(remote) {
		return source{}, skill.Unsafe("unsafe", "/remote %q is no name of a remote", remote)
	}
	text, err := r.setting(ctx, "remote."+remote+".url")
	if err != nil {
		return source{}, err
	}
	if text == "" {
		return source{}, skill.NotFound("%s has no remote %s", r.rel, remote)
	}
	src, isRemote, err := parseURL(text, "the remote's URL", false)
	if err != nil || isRemote {
		return src, err
	}
	return localSource(c, cmp.Or(src.url, text))
}

// readCredential checks the lease and returns the token, so that it can be kept out of what is said.
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

// parsePush reads push --porcelain: one line "flag TAB from:to TAB summary" for our one ref.
func parsePush(out string) (status string, err error) {
	for line := range strings.Lines(out) {
		flag, rest, ok := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		if !ok {
			continue
		}
		_, summary, _ := strings.Cut(rest, "\t")
		switch flag {
		case " ", "*", "+":
			return "ok", nil
		case "=":
			return "up_to_date", nil
		case "!":
			code := "rejected"
			if strings.Contains(summary, "stale info") || strings.Contains(summary, "fetch first") || strings.Contains(summary, "non-fast-forward") {
				code = "stale"
			}
			return "", skill.Failed(code, "the remote refused the push: %s", summary).
				WithHint("fetch the branch, rebase onto it and push again")
		}
	}
	return "", skill.Failed("push_failed", "git push did not say what became of the branch")
}
