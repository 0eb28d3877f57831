package system

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
)

// Push is git push to a URL: whatever the repository's configuration says of the remote does not count. The tracking refs,
// which git therefore leaves alone, follow here.
func (r *repo) Push(ctx context.Context, spec engine.PushSpec) ([]engine.PushedRef, error) {
	stats := newTransfer(ctx, engine.Limits{}, spec.Follow)
	cmd := command{
		args:  []string{"-c", "http.followRedirects=false", "push", "--porcelain", "--progress", "--no-verify", "--no-signed", "--recurse-submodules=no"},
		allow: spec.To.Protocol, env: spec.To.Env, ok: []int{1}, follow: stats.line,
	}
	if spec.DryRun {
		cmd.args = append(cmd.args, "--dry-run")
	}
	for _, ref := range spec.Refs {
		if ref.Expect == "" {
			continue
		}
		expect := ref.Expect
		if expect == "0" {
			expect = ""
		}
		cmd.args = append(cmd.args, "--force-with-lease="+ref.To+":"+expect)
	}
	cmd.args = append(cmd.args, "--", spec.To.URL)
	for _, ref := range spec.Refs {
		refspec := ref.From + ":" + ref.To
		if ref.Force {
			refspec = "+" + refspec
		}
		cmd.args = append(cmd.args, refspec)
	}
	done, err := cmd.withCredential(spec.To)
	if err != nil {
		return nil, err
	}
	defer done()
	out, err := r.in(stats.ctx, cmd)
	if err := stats.finish(err); err != nil {
		return nil, explain(err, "push_failed")
	}
	list := pushed(string(out), spec.Refs)
	if spec.DryRun {
		return list, nil
	}
	return list, r.track(ctx, spec, list)
}

// track makes the tracking refs of what was pushed follow, and sets the upstream of a branch.
func (r *repo) track(ctx context.Context, spec engine.PushSpec, list []engine.PushedRef) error {
	var updates strings.Builder
	for _, ref := range list {
		branch, ok := strings.CutPrefix(ref.Ref, "refs/heads/")
		if !ok || ref.Status == engine.PushRejected || spec.Remote == "" {
			continue
		}
		if ref.New == "" {
			fmt.Fprintf(&updates, "delete refs/remotes/%s/%s\n", spec.Remote, branch)
			continue
		}
		fmt.Fprintf(&updates, "update refs/remotes/%s/%s %s\n", spec.Remote, branch, ref.New)
	}
	if updates.Len() == 0 {
		return nil
	}
	if _, err := r.in(ctx, command{args: []string{"update-ref", "-m", "update by push", "--stdin"}, stdin: updates.String()}); err != nil {
		return explain(err, "push_failed")
	}
	if spec.SetUpstream == "" || list[0].Status == engine.PushRejected {
		return nil
	}
	for _, set := range [][2]string{{"remote", spec.Remote}, {"merge", list[0].Ref}} {
		if _, err := r.git(ctx, "config", "branch."+spec.SetUpstream+"."+set[0], set[1]); err != nil {
			return explain(err, "push_failed")
		}
	}
	return nil
}

// pushed reads push --porcelain: a line "flag TAB from:to TAB summary" for each ref.
func pushed(out string, refs []engine.PushRef) []engine.PushedRef {
	said := map[string][2]string{}
	for line := range strings.Lines(out) {
		flag, rest, ok := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		if !ok {
			continue
		}
		names, summary, _ := strings.Cut(rest, "\t")
		_, to, _ := strings.Cut(names, ":")
		said[to] = [2]string{flag, summary}
	}
	var list []engine.PushedRef
	for _, ref := range refs {
		p := engine.PushedRef{Ref: ref.To, New: ref.From, Status: engine.PushRejected}
		switch answer := said[ref.To]; answer[0] {
		case " ", "*", "+", "-":
			p.Status = engine.PushOK
			if engine.IsCommitID(ref.Expect) {
				p.Old = ref.Expect // git tells an abbreviation; this it has checked
			}
		case "=":
			p.Status = engine.PushUpToDate
		case "!":
			p.Reason = answer[1]
			for _, stale := range []string{"stale info", "fetch first", "non-fast-forward"} {
				p.Stale = p.Stale || strings.Contains(p.Reason, stale)
			}
		default:
			p.Reason = "git push did not say what became of it"
		}
		list = append(list, p)
	}
	return list
}

// Bundle is git bundle create to our pipe.
func (r *repo) Bundle(ctx context.Context, spec engine.BundleSpec, w io.Writer) error {
	_, err := r.in(ctx, command{args: []string{"bundle", "create", "--quiet", "-", spec.Base + ".." + spec.Ref}, stdout: w})
	return explain(err, "push_failed")
}
