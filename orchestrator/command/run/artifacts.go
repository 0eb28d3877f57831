package run

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/artifact"
	"github.com/spritekit/lattice/orchestrator/artifact/report"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// artifactsOptions are the flags of `lattice artifacts`.
type artifactsOptions struct {
	out   string // folder for all files
	file  string // file for the one named, - = standard output
	force bool
	limit int64
}

func newArtifactsCmd(env *setup.Env) *cobra.Command {
	var o artifactsOptions
	var q api.ProductQuery
	var all bool
	cmd := connect.NewQueryCmd(env, "artifacts [RUN [NAME]]", "List or fetch what a run produced: commits, branches, files",
		"  lattice artifacts --json\n  lattice artifacts --all --kind pull_request\n  lattice artifacts --kind sarif --json\n  lattice artifacts run_0123 --out products\n  lattice artifacts run_0123 report.md -o -", cobra.MaximumNArgs(2),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			if all || q != (api.ProductQuery{}) {
				q.Run = cmp.Or(q.Run, cli.Optional(list))
				if len(list) > 1 || o != (artifactsOptions{limit: o.limit}) {
					return cli.UsageErrorf("--all, --kind, --intent and --repo list artifacts; they fetch none")
				}
				return listProducts(ctx, env.Console, c, q)
			}
			v, err := c.Run(ctx, cli.Optional(list))
			if err != nil {
				return err
			}
			found, err := artifacts(ctx, c, v.RunID)
			if err != nil {
				return err
			}
			switch {
			case len(list) == 2 && o.file != "" && o.out == "":
				return o.fetch(ctx, env.Console, c, v.RunID, found, list[1])
			case len(list) == 2 || o.file != "":
				return cli.UsageErrorf("name a run and one of its files, and with -o where to write the file")
			case o.out != "":
				return o.fetchAll(ctx, env.Console, c, v.RunID, found)
			case env.JSON:
				return env.PrintJSON(found)
			}
			reports := map[string]string{}
			if v.Record != nil {
				for _, p := range v.Record.Artifacts {
					reports[p.Ref] = describeReport(p.Report)
				}
			}
			w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
			for _, a := range found {
				fmt.Fprintf(w, "%s\t%s\t%s\n", cli.Clean(a.Value.Kind), cli.Clean(a.Value.Ref), cli.Clean(cmp.Or(a.Value.URL, reports[a.Value.Ref])))
			}
			return w.Flush()
		})
	cmd.Long = `List what a run produced: commits, branches, files. With --out, fetch all of its files into a folder; with NAME and -o,
fetch one. Files that were declared with a digest are checked against it. Small files are kept when a run ends; larger
ones exist only as long as the run's sprite.

With --all, --kind, --intent or --repo, list what all runs produced, the newest first, with the run and its intent. There the
kinds are branch, commit, file, pull_request, issue, or as a skill named them; the URL is one of a web page, or the
path of a repository of this machine; others are left out. Files that are a JUnit report of tests or a SARIF report of an
analyser are recognised by their content and summarised; --kind junit or sarif lists those alone, --json their findings.

Names come from the sprite and are not trusted: a file whose name leads out of the folder is refused, and existing files
are replaced only with --force.
` + cli.ExitCodes
	cmd.Flags().BoolVar(&all, "all", false, "list the artifacts of all runs")
	cmd.Flags().StringVar(&q.Kind, "kind", "", "of all runs, list those of a `KIND`")
	cmd.Flags().StringVar(&q.Intent, "intent", "", "of all runs, list those of the runs of an `INTENT`, by its full id")
	cmd.Flags().StringVar(&q.Repo, "repo", "", "of all runs, list those of the runs on a `REPO`, a URL or an absolute path")
	cmd.Flags().StringVar(&o.out, "out", "", "fetch all files into `DIR`")
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "fetch the file NAME to `FILE`; - is standard output")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace existing files")
	cmd.Flags().Int64Var(&o.limit, "limit", 1<<30, "refuse files larger than this many `BYTES`")
	return cmd
}

// describeReport returns the summary of a report in a few words, "" for none.
func describeReport(r *report.Report) string {
	if r == nil {
		return ""
	}
	return r.String()
}

// listProducts prints artifacts from the registry.
func listProducts(ctx context.Context, console *cli.Console, c *connect.Conn, q api.ProductQuery) error {
	found, err := c.Products(ctx, q)
	if err != nil {
		return err
	}
	return cli.PrintTable(console, found, "RUN\tINTENT\tKIND\tREF\tURL OR REPORT", func(p artifact.Product) []any {
		return []any{p.RunID, p.IntentID, p.Kind, p.Ref, cmp.Or(p.URL, p.Path, p.Problem, describeReport(p.Report))}
	})
}

// artifacts folds the ARTIFACT events that count: valid, of a call that was issued, not superseded. A product that was
// declared several times, such as a commit that was verified, stands in the place of its first declaration with the last one.
func artifacts(ctx context.Context, c *connect.Conn, run string) ([]api.Artifact, error) {
	var entries []lattice.Entry
	if err := c.Entries(ctx, run, 0, func(e lattice.Entry) error { entries = append(entries, e); return nil }); err != nil {
		return nil, err
	}
	gone, found := lattice.Superseded(entries), []api.Artifact{}
	at := map[[3]string]int{}
	for _, e := range entries {
		if e.Kind != lattice.EntryEvent || e.Type != string(protocol.TypeArtifact) || gone[e.Seq] || len(e.Problems) > 0 || !session.Declares(e.Flags) {
			continue
		}
		ev, _, ok := protocol.Decode(e.Body)
		if !ok {
			continue
		}
		p, err := ev.Open()
		if err != nil {
			continue
		}
		a := api.Artifact{At: e.At, Sprite: e.Sprite, CallID: e.CallID, Value: p.(protocol.Artifact)}
		key := [3]string{a.Value.Kind, a.Value.Ref, a.Value.URL}
		if i, known := at[key]; known {
			found[i] = a
			continue
		}
		at[key] = len(found)
		found = append(found, a)
	}
	return found, nil
}

// fetched is one line of `lattice artifacts --out --json`.
type fetched struct {
	Ref    string `json:"ref"`
	File   string `json:"file,omitempty"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
	Error  string `json:"error,omitempty"`
	Code   string `json:"code,omitempty"` // of the error
}

// fetchAll writes every declared file below the folder. One that cannot be had does not keep the others back.
func (o artifactsOptions) fetchAll(ctx context.Context, console *cli.Console, c *connect.Conn, run string, found []api.Artifact) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("make the folder for artifacts: %w", err)
	}
	// Links in the folder never lead out of it.
	root, err := os.OpenRoot(o.out)
	if err != nil {
		return fmt.Errorf("open the folder for artifacts: %w", err)
	}
	defer root.Close()
	last := map[string]protocol.Artifact{}
	var order []string
	for _, a := range found {
		if a.Value.Kind != "file" {
			continue
		}
		if _, known := last[a.Value.Ref]; !known {
			order = append(order, a.Value.Ref)
		}
		last[a.Value.Ref] = a.Value
	}
	failed := 0
	for _, ref := range order {
		line := fetched{Ref: ref}
		name, err := localName(ref)
		if err == nil {
			line.File = filepath.Join(o.out, name)
			err = o.writeBelow(root, name, func(w io.Writer) (err error) {
				line.Size, line.SHA256, err = o.copy(ctx, c, run, last[ref], w)
				return err
			})
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failed++
			line.File, line.Error = "", err.Error()
			if known := fault.As(err); known != nil {
				line.Code = known.Code
			}
		}
		if err := printFetched(console, line); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fault.Failed("artifacts_missing", "%d of %d files were not fetched", failed, len(order)).WithHint("the lines above say why")
	}
	return nil
}

func printFetched(console *cli.Console, line fetched) error {
	switch {
	case console.JSON:
		return console.PrintJSON(line)
	case line.Error != "":
		fmt.Fprintf(console.Err, "lattice: %s: %s\n", cmp.Or(cli.Clean(line.Ref), "a file without a name"), cli.Clean(line.Error))
		return nil
	}
	_, err := fmt.Fprintln(console.Out, line.File)
	return err
}

// fetch writes one declared file where the person says.
func (o artifactsOptions) fetch(ctx context.Context, console *cli.Console, c *connect.Conn, run string, found []api.Artifact, name string) error {
	a := protocol.Artifact{Ref: name} // the leader refuses undeclared files
	for _, f := range found {
		if f.Value.Kind == "file" && f.Value.Ref == name {
			a = f.Value
		}
	}
	if o.file == "-" {
		_, _, err := o.copy(ctx, c, run, a, console.Out)
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(o.file))
	if err != nil {
		return fmt.Errorf("open the folder of %s: %w", o.file, err)
	}
	defer root.Close()
	return o.writeBelow(root, filepath.Base(o.file), func(w io.Writer) error {
		_, _, err := o.copy(ctx, c, run, a, w)
		return err
	})
}

// copy streams a file and checks it against its declaration.
func (o artifactsOptions) copy(ctx context.Context, c *connect.Conn, run string, a protocol.Artifact, w io.Writer) (size int64, digest string, err error) {
	content, err := c.Artifact(ctx, run, a.Ref)
	if err != nil {
		return 0, "", err
	}
	defer content.Close()
	sum := sha256.New()
	to := io.MultiWriter(w, sum)
	if o.file != "-" {
		show := cli.NewProgress(c.Env.Console)
		defer show.Clear()
		to = io.MultiWriter(to, show.CountBytes("fetched of "+cli.Clean(a.Ref), 0))
	}
	size, err = io.Copy(to, io.LimitReader(content, min(o.limit, math.MaxInt64-1)+1))
	if err != nil {
		return 0, "", fmt.Errorf("fetch %s: %w", a.Ref, err)
	}
	if size > o.limit {
		return 0, "", fault.Limit("artifact_too_large", "%s has more than %d bytes", a.Ref, o.limit).WithHint("--limit BYTES")
	}
	digest = hex.EncodeToString(sum.Sum(nil))
	var declared struct{ SHA256 string }
	if json.Unmarshal(a.Metadata, &declared) == nil && declared.SHA256 != "" && !strings.EqualFold(declared.SHA256, digest) {
		return 0, "", fault.Unsafe("artifact_differs", "%s is not the declared file: its sha256 is %s, not %s", a.Ref, digest, cli.Clean(declared.SHA256)).WithHint("lattice events %s shows the declaration", run)
	}
	return size, digest, nil
}

// writeBelow makes a file in one step, so that a failure leaves nothing half written.
func (o artifactsOptions) writeBelow(root *os.Root, name string, fill func(io.Writer) error) error {
	if err := o.replaceable(root, name); err != nil {
		return err
	}
	tmp := filepath.Base(name) + ".lattice-part" // not in its folder, which is made when there is something for it
	f, err := root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := errors.Join(fill(f), f.Close()); err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	if err := errors.Join(root.MkdirAll(filepath.Dir(name), 0o755), root.Rename(tmp, name)); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), root.Remove(tmp))
	}
	return nil
}

// replaceable refuses a name that is taken: without --force by anything, with it by all but a file.
func (o artifactsOptions) replaceable(root *os.Root, name string) error {
	taken := func(format, hint string) error {
		return fault.Unsafe("file_exists", format, filepath.Join(root.Name(), name)).WithHint("%s", hint)
	}
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for %s: %w", name, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return taken("%s is a symbolic link, which is not followed", "remove the link, or choose another folder")
	case info.IsDir():
		return taken("%s is a folder", "choose another folder")
	case !o.force || !info.Mode().IsRegular():
		return taken("%s already exists", "replace files with --force, or choose another folder")
	}
	return nil
}

// localName is where a declared file goes below a folder of ours. Names from a sprite are hostile: a name that leads out,
// or contains characters that a file name must not contain, is refused.
func localName(ref string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", fault.Unsafe("unsafe_name", "the name %q %s", ref, why).WithHint("fetch it by name: lattice artifacts RUN NAME -o FILE")
	}
	if ref == "" {
		return "", fault.BadInput("name_missing", "it was declared without a ref, so there is nothing to fetch").WithHint("lattice events shows the declaration")
	}
	if !utf8.ValidString(ref) || strings.ContainsFunc(ref, unicode.IsControl) {
		return refuse("contains characters that a file name must not contain")
	}
	name := ref
	if path.IsAbs(ref) {
		name = strings.TrimPrefix(strings.TrimPrefix(path.Clean(ref), "/workspace/"), "/")
	}
	name = filepath.FromSlash(path.Clean(name))
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		if strings.EqualFold(part, ".git") {
			return refuse("leads into a repository's own files")
		}
	}
	if !filepath.IsLocal(name) || name == "." {
		return refuse("leads out of the folder")
	}
	return name, nil
}
