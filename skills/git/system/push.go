package system

import (
	"context"
	"io"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
)

// Push is git push to a URL: whatever the repository's configuration says of the remote does not count.
func (r *repo) Push(ctx context.Context, spec engine.PushSpec) ([]engine.PushedRef, error) {
	cmd := command{
		args:  []string{"-c", "http.followRedirects=false", "push", "--porcelain", "--no-verify", "--no-signed", "--recurse-submodules=no"},
		allow: spec.To.Protocol, env: spec.To.Env, ok: []int{1},
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
	out, err := r.in(ctx, cmd)
	if err != nil {
		return nil, explain(err, "push_failed")
	}
	return pushed(string(out), spec.Refs), nil
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
