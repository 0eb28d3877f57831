// Package verify holds test.verify: it runs the tests of a commit where the author of the commit cannot influence them. Start
// with verifier.Verify. It clones the commit into a folder of its own, so that untracked files and the settings of the
// repository do not count, and puts the protected files back as they are in the base commit. Package git clones, compares and
// restores, package test runs and reports; this package calls their skills by name. confirm.go holds test.confirm, which runs the
// reproductions that a review names on such clones.
package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/ignore"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// defaultProtect are the usual names of tests and of the settings of test runners, as in .gitignore.
const defaultProtect = `*_test.go
testdata/
test/
tests/
spec/
__tests__/
__snapshots__/
*.test.*
*.spec.*
test_*.py
*_test.py
*_spec.rb
*Test.java
*Tests.cs
*.bats
conftest.py
pytest.ini
tox.ini
jest.config.*
vitest.config.*
.mocharc.*
phpunit.xml*
.spritekit/
`

// neutral are variables by which settings in the home folder, which the author of the commit may have written, do not count.
var neutral = map[string]string{
	"GOENV": "off", "GOWORK": "", "NPM_CONFIG_USERCONFIG": "/dev/null", "PIP_CONFIG_FILE": "/dev/null", "PYTHONNOUSERSITE": "1",
	"PYTEST_ADDOPTS": "", "PYTHONSTARTUP": "", "NODE_OPTIONS": "", "GIT_CONFIG_GLOBAL": "/dev/null",
}

// Skills lists the family. siblings are the skills of the other families.
func Skills(siblings []skill.Skill) []skill.Skill {
	v := verifier{siblings}
	return []skill.Skill{{Name: "test.verify", Run: skill.Typed(v.Verify)}, {Name: "test.confirm", Run: skill.Typed(v.Confirm)}}
}

// verifier calls the skills of other families.
type verifier struct{ skill.Siblings }

type input struct {
	Repo     string            `json:"repo"`
	Base     string            `json:"base"`
	Commit   string            `json:"commit"`
	Commands [][]string        `json:"commands"`
	Protect  []string          `json:"protect"`
	Cwd      string            `json:"cwd"`
	TimeoutS float64           `json:"timeout_s"`
	Env      map[string]string `json:"env"`
}

// Verify is test.verify.
func (v verifier) Verify(ctx context.Context, c *skill.Call, in input) (*protocol.VerifyReport, error) {
	if err := in.checkInput(); err != nil {
		return nil, err
	}
	repo := cmp.Or(in.Repo, "repo")
	r := protocol.VerifyReport{Status: "passed", Base: in.Base, Restored: []string{}, Commands: []protocol.VerifyCommand{}}
	if err := v.resolveCommit(ctx, c, repo, cmp.Or(in.Commit, "HEAD"), &r); err != nil {
		return nil, err
	}
	clone := "verify-" + hexDigest(c.ID)[:12]
	defer func() { _ = c.Root.RemoveAll(clone) }() // a remainder ends with the fork
	if err := c.Root.RemoveAll(clone); err != nil {
		return nil, err
	}
	if err := v.CallSkill(ctx, c, "git.clone", map[string]any{"url": repo, "dest": clone, "ref": r.Commit}, nil); err != nil {
		return nil, err
	}
	if err := v.restoreProtected(ctx, c, clone, in.Protect, &r); err != nil {
		return nil, err
	}
	back, err := setAside(c, clone)
	if err != nil {
		return nil, err
	}
	err = v.runAll(ctx, c, clone, in, &r)
	return &r, errors.Join(err, back())
}

func (in *input) checkInput() error {
	if !isCommitID(in.Base) {
		return skill.BadInput("/base", "%q is not the full id of a commit", in.Base)
	}
	for i, argv := range in.Commands {
		if len(argv) == 0 || argv[0] == "" {
			return skill.BadInput(fmt.Sprintf("/commands/%d", i), "names no program")
		}
	}
	if cwd := path.Clean(cmp.Or(in.Cwd, ".")); path.IsAbs(cwd) || cwd == ".." || strings.HasPrefix(cwd, "../") {
		return skill.BadInput("/cwd", "%q is outside the repository", in.Cwd)
	}
	return nil
}

func isCommitID(id string) bool {
	_, err := hex.DecodeString(id)
	return err == nil && (len(id) == 40 || len(id) == 64) && strings.ToLower(id) == id
}

// resolveCommit finds the commit and its tree, and that the base is a commit.
func (v verifier) resolveCommit(ctx context.Context, c *skill.Call, repo, revision string, r *protocol.VerifyReport) error {
	var found struct {
		Resolved []struct {
			ID     string `json:"id"`
			Commit string `json:"commit"`
		} `json:"resolved"`
	}
	if err := v.CallSkill(ctx, c, "git.rev_parse", map[string]any{"repo": repo, "refs": []string{revision, r.Base}}, &found); err != nil {
		return err
	}
	r.Commit = found.Resolved[0].Commit
	if !isCommitID(r.Commit) || found.Resolved[1].Commit != r.Base {
		return skill.BadInput("/commit", "%s and base are not both commits", revision)
	}
	if err := v.CallSkill(ctx, c, "git.rev_parse", map[string]any{"repo": repo, "refs": []string{r.Commit + "^{tree}"}}, &found); err != nil {
		return err
	}
	r.Tree = found.Resolved[0].ID
	return nil
}

// restoreProtected gives the protected files of a clone the content that they have in the base commit.
func (v verifier) restoreProtected(ctx context.Context, c *skill.Call, clone string, patterns []string, r *protocol.VerifyReport) error {
	var diff struct {
		Files []struct {
			Path   string `json:"path"`
			Status string `json:"status"`
		} `json:"files"`
		Truncated bool `json:"truncated"`
	}
	if err := v.CallSkill(ctx, c, "git.diff", map[string]any{"repo": clone, "from": r.Base, "to": r.Commit, "format": "name-status"}, &diff); err != nil {
		return err
	}
	if diff.Truncated {
		return fault.New(protocol.ExitLimit, "too_many", "the commit changes too many files since base to be compared")
	}
	protected := ignore.NewTree(rulesOf(patterns), func(string) []byte { return nil })
	var back, attributes []string
	for _, f := range diff.Files {
		if path.Base(f.Path) == ".gitattributes" {
			attributes = append(attributes, f.Path)
			continue
		}
		if !protected.Ignored(f.Path, false) {
			continue
		}
		r.Restored = append(r.Restored, f.Path)
		if f.Status != "A" {
			back = append(back, f.Path)
		} else if err := c.Root.Remove(path.Join(clone, f.Path)); err != nil {
			return err
		}
	}
	if len(back) > 0 {
		if err := v.CallSkill(ctx, c, "git.restore", map[string]any{"repo": clone, "paths": back, "source": r.Base}, nil); err != nil {
			return err
		}
	}
	if len(attributes) == 0 {
		return nil
	}
	r.Restored = append(r.Restored, attributes...)
	slices.Sort(r.Restored)
	return v.rewriteProtected(ctx, c, clone, attributes, protected, r.Base)
}

// rewriteProtected puts the attributes of the base commit back, by which git may change the content of a file that it checks out,
// and checks the protected files out again.
func (v verifier) rewriteProtected(ctx context.Context, c *skill.Call, clone string, attributes []string, protected *ignore.Tree, base string) error {
	restore := map[string]any{"repo": clone, "paths": attributes, "source": base, "staged": true, "worktree": true}
	if err := v.CallSkill(ctx, c, "git.restore", restore, nil); err != nil {
		return err
	}
	files, err := listProtected(c, clone, "", protected)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(files, 500) {
		for _, name := range some {
			if err := c.Root.Remove(path.Join(clone, name)); err != nil {
				return err
			}
		}
		if err := v.CallSkill(ctx, c, "git.restore", map[string]any{"repo": clone, "paths": some, "source": base}, nil); err != nil {
			return err
		}
	}
	return nil
}

// listProtected lists the protected files below a folder of a clone, without those of git.
func listProtected(c *skill.Call, clone, dir string, protected *ignore.Tree) (files []string, err error) {
	entries, err := c.Root.List(path.Join(clone, dir))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case name == ".git" || e.Name() == ".gitattributes":
		case e.IsDir():
			below, err := listProtected(c, clone, name, protected)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
		case protected.Ignored(name, false):
			files = append(files, name)
		}
	}
	return files, nil
}

func rulesOf(patterns []string) *ignore.Rules {
	if len(patterns) == 0 {
		return ignore.New([]byte(defaultProtect))
	}
	return ignore.New([]byte(strings.Join(patterns, "\n")))
}

// setAside moves the other files of the workspace into a folder, because runners read settings in the folders above. back
// returns them.
func setAside(c *skill.Call, clone string) (back func() error, err error) {
	aside := clone + ".aside"
	entries, err := c.Root.List(".")
	if err != nil {
		return nil, err
	}
	var moved []string
	back = func() (err error) {
		for _, name := range moved {
			err = errors.Join(err, c.Root.Rename(path.Join(aside, name), name))
		}
		return errors.Join(err, c.Root.RemoveAll(aside))
	}
	if err := c.Root.MkdirAll(aside); err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if name == clone || name == aside || c.Root.Reserved(name) {
			continue
		}
		if err := c.Root.Rename(name, path.Join(aside, name)); err != nil {
			return nil, errors.Join(err, back())
		}
		moved = append(moved, name)
	}
	return back, nil
}

// runAll runs the commands in the clone until one is red.
func (v verifier) runAll(ctx context.Context, c *skill.Call, clone string, in input, r *protocol.VerifyReport) error {
	env := map[string]string{}
	for name, value := range neutral {
		env[name] = value
	}
	for name, value := range in.Env {
		env[name] = value
	}
	commands := in.Commands
	if len(commands) == 0 {
		commands = [][]string{nil}
	}
	for _, argv := range commands {
		test := map[string]any{"cwd": path.Join(clone, in.Cwd), "env": env, "allow_red": true}
		if len(argv) > 0 {
			test["command"] = argv
		}
		if in.TimeoutS > 0 {
			test["timeout_s"] = in.TimeoutS
		}
		ran, err := v.runOne(ctx, c, test, argv)
		if err != nil {
			return err
		}
		r.Commands = append(r.Commands, ran)
		r.DurationMS += ran.DurationMS
		if ran.Status != "passed" {
			r.Status = "failed"
			return nil
		}
	}
	return nil
}

// runTests calls test.run and reads its report, which is in the details of the error if the tests failed or broke.
func (v verifier) runTests(ctx context.Context, c *skill.Call, test map[string]any, report any) error {
	err := v.CallSkill(ctx, c, "test.run", test, report)
	if fault.HasCode(err, "tests_failed", "timeout", "no_tests", "test_error") && json.Unmarshal(fault.As(err).Details, report) == nil {
		return nil
	}
	return err
}

// runOne runs one command. A command that cannot be started is an error; one that times out or breaks is red.
func (v verifier) runOne(ctx context.Context, c *skill.Call, test map[string]any, argv []string) (protocol.VerifyCommand, error) {
	var report struct {
		protocol.VerifyCommand
		Command []string `json:"command"`
	}
	err := v.runTests(ctx, c, test, &report)
	if err != nil {
		return protocol.VerifyCommand{}, err
	}
	if report.Status == "" {
		return protocol.VerifyCommand{}, errors.New("test.run reported no status")
	}
	ran := report.VerifyCommand
	if ran.Argv = argv; argv == nil {
		ran.Argv = report.Command
	}
	raw, err := json.Marshal(ran.Argv)
	ran.SHA256 = hexDigest(string(raw))
	return ran, err
}

func hexDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
