package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/dropin"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/leader/skillset"
	"github.com/spritekit/lattice/orchestrator/oci"
	"github.com/spritekit/lattice/orchestrator/sbom"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

// buildOptions are the flags of lattice image build.
type buildOptions struct {
	rootfs    []string
	base      string
	output    string
	platforms []string
	tag       string
	spritekit string
	skills    []string
	bill      string
	billFile  string
	replace   bool
}

func newBuildCmd(env *setup.Env) *cobra.Command {
	var o buildOptions
	cmd := &cobra.Command{
		Use: "build -o LAYOUT [--rootfs [linux/ARCH=]PATH | --base LAYOUT[#NAME]]", Short: "Build an OCI layout with the skills in /skills",
		Long: `Build an OCI layout from a base and one layer with /skills. The base is a root filesystem for each architecture (a folder, or a
tar, which may be compressed with gzip or zstd), the images of another layout, or nothing. No registry and no daemon is used.
The spritekit of an architecture is the file spritekit-linux-ARCH or spritekit next to lattice, on PATH or given with
--spritekit (make remote builds both).

Builds are reproducible: equal inputs give equal digests everywhere. All times are SOURCE_DATE_EPOCH (default 0), and root
owns all of /skills. A tar is used byte for byte; of a folder, names, contents, modes and links count, and root owns
everything in it.
` + cli.ExitCodes,
		Example: `  lattice image build --rootfs debian.tar -o debian.oci --sbom spdx && lattice image import debian.oci --name debian
  lattice image build -o skills.oci --platform linux/amd64,linux/arm64
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) lattice image build --base ./python.oci#3.13 -o python-skills.oci`,
		Args: cli.Args(cobra.NoArgs), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error { return runBuild(c.Context(), env, o) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.rootfs, "rootfs", nil, "root filesystem to build on, a folder or a tar: `[linux/ARCH=]PATH`; repeatable")
	f.StringVar(&o.base, "base", "", "`LAYOUT[#NAME]` with the images to build on; scratch, the default, is none")
	f.StringVarP(&o.output, "output", "o", "", "`LAYOUT`: the folder to create")
	f.StringSliceVar(&o.platforms, "platform", nil, "platforms, such as linux/amd64,linux/arm64 (default: those of the base; without a base, both)")
	f.StringVar(&o.tag, "tag", "latest", "the name of the image in the layout")
	f.StringVar(&o.spritekit, "spritekit", "", "`PATH` of the spritekit; those of other architectures are next to it")
	f.StringVar(&o.bill, "sbom", "", "attach a bill of materials of this kind: spdx")
	f.StringVar(&o.billFile, "sbom-file", "", "also write the bill to `FILE`; with several architectures, one file each, with ARCH before FILE's ending")
	f.BoolVar(&o.replace, "force", false, "replace an existing layout")
	equip.AddSkillFlag(cmd, &o.skills)
	_ = cmd.MarkFlagDirname("output")
	_ = cmd.RegisterFlagCompletionFunc("platform", cobra.FixedCompletions([]string{"linux/amd64", "linux/arm64"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("sbom", cobra.FixedCompletions([]string{"spdx"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runBuild(ctx context.Context, env *setup.Env, o buildOptions) error {
	if o.output == "" {
		return cli.UsageErrorf("name the folder to create: -o LAYOUT")
	}
	recipe, err := makeRecipe(env, o)
	if err != nil {
		return err
	}
	var bills []bill
	if recipe.Describe, err = makeDescriber(env, o.bill, o.billFile, &bills); err != nil {
		return err
	}
	kept, err := os.MkdirTemp("", "lattice-skills-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(kept)
	if recipe.Skills.DropIns, err = findKeptSkills(env, o.skills, kept); err != nil {
		return err
	}
	show := cli.NewProgress(env.Console)
	recipe.Tell = func(step string, done, of int64) { show.ShowStep(step, done, of) }
	built, err := oci.Build(ctx, recipe, filepath.Clean(o.output), o.replace)
	show.Clear()
	if refused := fault.As(err); refused != nil {
		return refused
	}
	if err != nil {
		return err
	}
	if o.billFile != "" {
		if err := writeBills(o.billFile, bills); err != nil {
			return err
		}
	}
	return printBuilt(env.Console, built)
}

// makeRecipe returns the recipe of an image from the flags.
func makeRecipe(env *setup.Env, o buildOptions) (oci.Recipe, error) {
	r := oci.Recipe{Tag: o.tag, Base: o.base, Skills: oci.Skills{Architectures: []string{"amd64", "arm64"}, Manifests: map[string][]byte{}}}
	if r.Base == "scratch" {
		r.Base = ""
	}
	for _, s := range manifests.Skills() {
		r.Skills.Manifests[s.Name] = manifests.Raw(s.Name)
	}
	r.Skills.Spritekit = func(arch string) (string, error) {
		path, err := skillset.FindSpritekitFor(env.Spritekit(o.spritekit), env.Exe, env.Getenv("PATH"), arch)
		if err != nil {
			return "", fault.NotFound("spritekit_missing", "there is no spritekit for linux/%s next to lattice, on PATH or given with --spritekit", arch).WithHint("build it with make remote, or leave this platform out of --platform")
		}
		return path, nil
	}
	for _, p := range o.platforms {
		arch, err := architectureOf(p)
		if err != nil {
			return r, err
		}
		if !slices.Contains(r.Architectures, arch) {
			r.Architectures = append(r.Architectures, arch)
		}
	}
	for _, text := range o.rootfs {
		fs := oci.Rootfs{Path: env.Expand(text)}
		if platform, path, ok := strings.Cut(text, "="); ok && strings.HasPrefix(platform, "linux/") {
			arch, err := architectureOf(platform)
			if err != nil {
				return r, err
			}
			fs = oci.Rootfs{Architecture: arch, Path: env.Expand(path)}
		}
		r.Rootfs = append(r.Rootfs, fs)
	}
	var err error
	r.Time, err = sourceDate(env.Getenv("SOURCE_DATE_EPOCH"))
	return r, err
}

func architectureOf(platform string) (string, error) {
	arch, linux := strings.CutPrefix(platform, "linux/")
	if !linux || arch != "amd64" && arch != "arm64" {
		return "", cli.UsageErrorf("sprites do not have the platform %q: use linux/amd64 or linux/arm64", platform)
	}
	return arch, nil
}

// sourceDate returns the time of all entries of an image.
func sourceDate(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	// Tar and the documents about an image hold whole seconds up to the year 9999.
	s, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || s < 0 || s > 253402300799 {
		return time.Time{}, cli.UsageErrorf("SOURCE_DATE_EPOCH %q is not a number of seconds since 1970", epoch)
	}
	return time.Unix(s, 0).UTC(), nil
}

// findKeptSkills copies the skills of others to where they no longer change.
func findKeptSkills(env *setup.Env, dirs []string, to string) (map[string]string, error) {
	all, err := dropin.ReadAll(env.Paths(dirs))
	if err != nil {
		return nil, err
	}
	kept := map[string]string{}
	for _, s := range all {
		if kept[s.Name], err = dropin.Keep(to, s); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// bill is the bill of materials of one image.
type bill struct {
	arch string
	data []byte
}

// makeDescriber returns a function that makes the bill of an image and adds it to written. It returns nil without a kind.
func makeDescriber(env *setup.Env, kind, file string, written *[]bill) (func(oci.Contents) ([]oci.Document, error), error) {
	switch {
	case kind == "" && file != "":
		return nil, cli.UsageErrorf("--sbom-file needs a kind: --sbom spdx")
	case kind == "":
		return nil, nil
	case kind != "spdx":
		return nil, cli.UsageErrorf("%q is not a kind of bill of materials; it can be spdx", kind)
	}
	return func(c oci.Contents) ([]oci.Document, error) {
		about, err := sbom.Read(sbom.Subject{Platform: c.Platform, Digest: c.Digest, Created: c.Time, Tool: env.Version}, c.Files, c.Spritekit)
		if err != nil {
			return nil, err
		}
		data, err := about.SPDX()
		if err != nil {
			return nil, err
		}
		*written = append(*written, bill{strings.TrimPrefix(c.Platform, "linux/"), data})
		return []oci.Document{{MediaType: sbom.SPDXMediaType, Title: "sbom.spdx.json", Data: data}}, nil
	}, nil
}

// writeBills writes one bill to file, or several to a file each: bill.json becomes bill.amd64.json.
func writeBills(file string, bills []bill) error {
	for _, b := range bills {
		name := file
		if len(bills) > 1 {
			ext := filepath.Ext(file)
			name = strings.TrimSuffix(file, ext) + "." + b.arch + ext
		}
		if err := os.WriteFile(name, b.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func printBuilt(console *cli.Console, built oci.Built) error {
	if console.JSON {
		return console.PrintJSON(built)
	}
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "layout\t%s\ntag\t%s\ndigest\t%s\n", cli.Clean(built.Layout), cli.Clean(built.Tag), built.Digest)
	for _, img := range built.Images {
		size := int64(0)
		for _, l := range img.Layers {
			size += l.Size
		}
		fmt.Fprintf(w, "%s\t%s, %d layers, %.1f MB\n", img.Platform, img.Digest, len(img.Layers), float64(size)/1e6)
		for _, doc := range img.Documents {
			fmt.Fprintf(w, "\t%s %s\n", doc.Title, doc.Manifest)
		}
	}
	return w.Flush()
}
