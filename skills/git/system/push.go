package system

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
)

// Push is git push to a URL, so that the repository's configuration of the remote has no effect. Git then leaves the
// remote-tracking refs unchanged; Push updates them itself.
func (r *repo) Push(ctx context.Context, spec engine.PushSpec) ([]engine.PushedRef, error) {
	stats := gitcmd.NewTransfer(ctx, engine.Limits{}, spec.Follow)
	cmd := gitcmd.Command{
		Args:   []string{"-c", "http.followRedirects=false", "push", "--porcelain", "--progress", "--no-verify", "--no-signed", "--recurse-submodules=no"},
		Remote: &spec.To, OK: []int{1}, Follow: stats.Line,
	}
	if spec.DryRun {
		cmd.Args = append(cmd.Args, "--dry-run")
	}
	for _, ref := range spec.Refs {
		if ref.Expect == "" {
			continue
		}
		expect := ref.Expect
		if expect == "0" {
			expect = ""
		}
		cmd.Args = append(cmd.Args, "--force-with-lease="+ref.To+":"+expect)
	}
	cmd.Args = append(cmd.Args, "--", spec.To.URL)
	for _, ref := range spec.Refs {
		cmd.Args = append(cmd.Args, ref.From+":"+ref.To)
	}
	out, err := r.Run(stats.Ctx, cmd)
	if err := stats.Finish(err); err != nil {
		return nil, gitcmd.Explain(err, "push_failed")
	}
	list := parsePushed(string(out), spec.Refs)
	if spec.DryRun {
		return list, nil
	}
	return list, r.updateTracking(ctx, spec, list)
}

// updateTracking updates the remote-tracking refs of pushed branches and sets the upstream of a branch.
func (r *repo) updateTracking(ctx context.Context, spec engine.PushSpec, list []engine.PushedRef) error {
	var updates strings.Builder
	for _, ref := range list {
		branch, ok := strings.CutPrefix(ref.Ref, "refs/heads/")
		if !ok || ref.Status == engine.PushRejected || spec.Remote == "" {
			continue
		}
		fmt.Fprintf(&updates, "update refs/remotes/%s/%s %s\n", spec.Remote, branch, ref.New)
	}
	if updates.Len() == 0 {
		return nil
	}
	if _, err := r.Run(ctx, gitcmd.Command{Args: []string{"update-ref", "-m", "update by push", "--stdin"}, Stdin: updates.String()}); err != nil {
		return gitcmd.Explain(err, "push_failed")
	}
	if spec.SetUpstream == "" || list[0].Status == engine.PushRejected {
		return nil
	}
	for _, set := range [][2]string{{"remote", spec.Remote}, {"merge", list[0].Ref}} {
		if _, err := r.Change(ctx, "config", "branch."+spec.SetUpstream+"."+set[0], set[1]); err != nil {
			return gitcmd.Explain(err, "push_failed")
		}
	}
	return nil
}

// parsePushed reads push --porcelain: a line "flag TAB from:to TAB summary" for each ref.
func parsePushed(out string, refs []engine.PushRef) []engine.PushedRef {
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
		case " ", "*", "+":
			p.Status = engine.PushOK
			if engine.IsCommitID(ref.Expect) {
				p.Old = ref.Expect // git prints an abbreviation; it has checked this one
			}
		case "=":
			p.Status = engine.PushUpToDate
		case "!":
			p.Reason = answer[1]
			for _, stale := range []string{"stale info", "fetch first", "non-fast-forward"} {
				p.Stale = p.Stale || strings.Contains(p.Reason, stale)
			}
		default:
			p.Reason = "git push did not report a result"
		}
		list = append(list, p)
	}
	return list
}

// Bundle is git bundle create to our pipe.
func (r *repo) Bundle(ctx context.Context, spec engine.BundleSpec, w io.Writer) error {
	_, err := r.Run(ctx, gitcmd.Command{Args: []string{"bundle", "create", "--quiet", "-", spec.Base + ".." + spec.Ref}, Stdout: w})
	return gitcmd.Explain(err, "push_failed")
}
