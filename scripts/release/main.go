// Command release builds a release from a clean checkout: an archive for each platform, a Debian package for each Linux
// platform, a bill of materials (SPDX) for each of them, and SHA256SUMS. Run it by "make release".
//
//	release [-o DIR] [-platforms LIST]
//
// The version is the one that go build stamps: the tag of the commit, or a pseudo-version. A tagged version needs a section
// of its own in CHANGELOG.md. Equal commits and an equal Go give equal bytes. The command publishes nothing.
package main

import (
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/sbom"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func main() {
	out := flag.String("o", "bin/release", "`directory` for the files, relative to the checkout; its old content is removed")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "`list` of GOOS/GOARCH")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*out, strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(out string, platforms []string) error {
	root, err := output("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	seconds, err := output(root, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(out) {
		out = filepath.Join(root, out)
	}
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r := &release{root: root, out: out, work: work, time: time.Unix(unix, 0).UTC()}
	if err := r.prepare(); err != nil {
		return err
	}
	for _, p := range platforms {
		if err := r.buildPlatform(p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return r.writeSums()
}

// prepare builds the programs for this machine, whose help makes the manual pages and completions, and the other files
// that all platforms share.
func (r *release) prepare() error {
	host := filepath.Join(r.work, "host")
	if err := r.makeBuild(host, runtime.GOOS, runtime.GOARCH); err != nil {
		return err
	}
	lattice := filepath.Join(host, "lattice")
	info, err := buildinfo.ReadFile(lattice)
	if err != nil {
		return err
	}
	changes, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if r.version, err = checkVersion(info.Main.Version, string(changes)); err != nil {
		return err
	}
	r.shared = filepath.Join(r.work, "shared")
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "THREATS.md", "SECURITY.md"} {
		if err := copyFile(filepath.Join(r.shared, name), filepath.Join(r.root, name), 0o644); err != nil {
			return err
		}
	}
	if err := os.CopyFS(filepath.Join(r.shared, "docs"), os.DirFS(filepath.Join(r.root, "docs"))); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(r.shared, "docs", "docs.go")); err != nil {
		return err
	}
	if _, err := output(r.root, "go", "run", "./scripts/genman", filepath.Join(r.shared, "man", "man1"), lattice, filepath.Join(host, "spritekit")); err != nil {
		return err
	}
	for shell, name := range completions {
		script, err := output(r.root, lattice, "completion", shell)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(r.shared, "completions", name), []byte(script+"\n"), 0o644); err != nil {
			return err
		}
	}
	return r.writeLicences(filepath.Join(r.shared, "THIRD-PARTY-LICENSES.txt"))
}

var pseudoVersion = regexp.MustCompile(`[-.]\d{14}-[0-9a-f]{12}$`)

// checkVersion returns the version of a release without its v. A checkout with changes has none, and a tagged version must
// be described in the changelog.
func checkVersion(stamped, changelog string) (string, error) {
	version, ok := strings.CutPrefix(stamped, "v")
	switch {
	case !ok:
		return "", fmt.Errorf("the build has no version (%q): it needs a git checkout", stamped)
	case strings.HasSuffix(version, "+dirty"):
		return "", fmt.Errorf("the checkout has changes (version %s): commit or remove them", version)
	case !pseudoVersion.MatchString(version) && !strings.Contains(changelog, "\n## ["+version+"]"):
		return "", fmt.Errorf("CHANGELOG.md has no section [%s]", version)
	}
	return version, nil
}

// buildPlatform writes the files of one platform.
func (r *release) buildPlatform(platform string) error {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return fmt.Errorf("want GOOS/GOARCH")
	}
	name := fmt.Sprintf("lattice_%s_%s_%s", r.version, system, arch)
	tree := filepath.Join(r.work, name)
	if err := os.CopyFS(tree, os.DirFS(r.shared)); err != nil {
		return err
	}
	if err := r.makeBuild(tree, system, arch); err != nil {
		return err
	}
	programs, err := r.addSystemFiles(tree, system)
	if err != nil {
		return err
	}
	programs = append(programs, filepath.Join(tree, "lattice"), filepath.Join(tree, "spritekit"))
	archive := filepath.Join(r.out, name+".tar.gz")
	if err := writeArchive(archive, tree, r.time); err != nil {
		return err
	}
	if err := r.writeBill(archive, platform, programs); err != nil {
		return err
	}
	if system != "linux" {
		return nil
	}
	deb, err := r.writeDeb(tree, arch)
	if err != nil {
		return err
	}
	return r.writeBill(deb, platform, programs)
}

// addSystemFiles adds the files of one system to a tree, and returns the programs among them and inside others.
func (r *release) addSystemFiles(tree, system string) (programs []string, err error) {
	if system == "linux" {
		init := filepath.Join(r.work, "boxinit") // it lies inside lattice
		err := errors.Join(
			copyFile(init, filepath.Join(r.root, "orchestrator/host/initfile/boxinit"), 0o755),
			copyFile(filepath.Join(tree, "apparmor", "lattice"), filepath.Join(r.root, "images/apparmor/lattice"), 0o644))
		for unit := range units {
			err = errors.Join(err, copyFile(filepath.Join(tree, "systemd", unit), filepath.Join(r.root, "scripts/release", unit), 0o644))
		}
		return []string{init}, err
	}
	for _, arch := range []string{"amd64", "arm64"} { // sprites are remote, and need the skills of their system
		linux := filepath.Join(r.work, "linux-"+arch)
		spritekit := filepath.Join(tree, "spritekit-linux-"+arch)
		err := errors.Join(r.makeBuild(linux, "linux", arch),
			copyFile(spritekit, filepath.Join(linux, "spritekit"), 0o755),
			copyFile(protocol.ExtraOf(spritekit), filepath.Join(linux, protocol.Extra), 0o755))
		if err != nil {
			return nil, err
		}
		programs = append(programs, spritekit)
	}
	return programs, nil
}

// makeBuild builds the programs of a platform into dir, unless they are there.
func (r *release) makeBuild(dir, system, arch string) error {
	if _, err := os.Stat(filepath.Join(dir, "lattice")); err == nil {
		return nil
	}
	cmd := exec.Command("make", "-s", "-C", r.root, "build", "BIN="+dir)
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make build: %w\n%s", err, out)
	}
	return nil
}

// writeBill writes the bill of materials of a file next to it.
func (r *release) writeBill(file, platform string, programs []string) error {
	digest, err := digestOf(file)
	if err != nil {
		return err
	}
	subject := sbom.Subject{Name: filepath.Base(file), Platform: platform, Digest: "sha256:" + digest, Created: r.time, Tool: r.version}
	bill, err := sbom.ReadPrograms(subject, programs...)
	if err != nil {
		return err
	}
	data, err := bill.SPDX()
	if err != nil {
		return err
	}
	return writeFile(file+".spdx.json", data, 0o644)
}

// writeSums writes SHA256SUMS, which sha256sum --check reads, and prints it.
func (r *release) writeSums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		digest, err := digestOf(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", digest, e.Name())
	}
	fmt.Print(sums.String())
	return writeFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
