package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const (
	ownSkills    = "spritekit" // as an entry of the input skills: the skills of this binary
	packTimeout  = 2 * time.Minute
	maxPackWords = 2 << 10 // of a failed installer's output
)

// placeTexts writes instructions and Agent Skills to the places where the agent looks for them. In the private home of the
// session they stay for the next call. In the repository they exist during the call only, are hidden from git, and never
// replace an existing file.
func (l *launch) placeTexts() error {
	if text := l.in.Instructions; text != "" {
		placed := false
		for _, where := range l.adapter.Instructions {
			ok, err := l.files.placeText(l.spec.Dir, where, text)
			if err != nil {
				return err
			}
			placed = placed || ok
		}
		if !placed {
			l.prompt = text + "\n\n" + l.prompt
		}
	}
	if len(l.in.Skills) > 0 && len(l.adapter.Skills) == 0 {
		return fault.Unsupported("unsupported", "%s has no folder in which it looks for skills", l.adapter.Name).
			WithHint("leave skills out, or name the folder in its adapter")
	}
	for _, where := range l.adapter.Skills {
		for i, name := range l.in.Skills {
			if err := l.newInstaller().placeSkill(strings.TrimPrefix(where, "{home}/"), i, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// installer puts skills and prompt packs into the private home of a session.
type installer struct {
	root    *workspace.Root
	home    string // relative to the workspace
	dir     string // in which installers run
	env     []string
	self    binary
	reaper  *proc.Reaper
	secrets *redact.Secrets
	vars    adapter.Variables
}

func (l *launch) newInstaller() *installer {
	return &installer{root: l.call.Root, home: l.files.home, dir: l.spec.Dir, env: l.spec.Env, self: l.self, reaper: l.reaper, secrets: l.secrets, vars: l.vars}
}

// placeSkill copies a skill from the workspace, or exports our own skills.
func (p *installer) placeSkill(dir string, index int, name string) error {
	root := p.root
	dir = p.home + "/" + dir
	if err := root.MkdirAll(dir); err != nil {
		return err
	}
	if name == ownSkills {
		if p.self == "" {
			return fault.Unsupported("skills_unavailable", "there is no spritekit on PATH or in /skills whose skills could be exported").
				WithHint("install it: spritekit install /skills")
		}
		return p.run(context.Background(), []string{string(p.self), "skills", "export", filepath.Join(root.Dir(), dir)}, "the skills of spritekit")
	}
	if _, err := root.Stat(name + "/SKILL.md"); err != nil {
		return skill.BadInput(fmt.Sprintf("/skills/%d", index), "%q is neither a folder of the workspace with a SKILL.md nor %q: %v", name, ownSkills, err)
	}
	from, err := root.Real(name)
	if err != nil {
		return err
	}
	to := dir + "/" + filepath.Base(name)
	if err := root.RemoveAll(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !filepath.IsAbs(from) {
		from = filepath.Join(root.Dir(), from)
	}
	if err := os.CopyFS(filepath.Join(root.Dir(), to), os.DirFS(from)); err != nil {
		return fmt.Errorf("copy the skill %s: %w", name, err)
	}
	return nil
}

// installPacks runs the installers of prompt packs, which write into the private home.
func (p *installer) installPacks(ctx context.Context, a adapter.Adapter, names []string) error {
	for i, name := range names {
		pack, ok := a.Packs[name]
		if !ok {
			known := slices.Sorted(maps.Keys(a.Packs))
			return fault.Unsupported("unsupported", "/packs/%d: %s has no pack %q", i, a.Name, name).
				WithHint("known for it: %s", strings.Join(known, ", "))
		}
		folder, ok := p.findPack(pack.Package)
		if !ok {
			return fault.Unsupported("pack_missing", "the pack %s needs the package %s, which is not in this sprite", name, pack.Package).
				WithHint("install it in the image (npm install -g %s), or unpack it as %s", pack.Package, p.self.sibling("packs/"+pack.Package))
		}
		p.vars["pack"] = folder
		argv := make([]string, len(pack.Argv))
		for i, word := range pack.Argv {
			argv[i] = p.vars.Expand(word)
		}
		argv, err := proc.Resolve(argv, p.env)
		if err != nil {
			return err
		}
		if err := p.run(ctx, argv, "the pack "+name); err != nil {
			return err
		}
	}
	return nil
}

// findPack returns the folder of an installed package: next to spritekit, or near a folder of PATH.
func (p *installer) findPack(name string) (string, bool) {
	places := []string{p.self.sibling("packs/" + name)}
	for _, dir := range filepath.SplitList(proc.Getenv(p.env, "PATH", proc.DefaultPath)) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if filepath.Base(dir) == ".bin" {
			places = append(places, filepath.Join(dir, "..", name))
		}
		places = append(places, filepath.Join(dir, "..", "lib", "node_modules", name))
	}
	for _, place := range places {
		if info, err := os.Stat(filepath.Join(place, "package.json")); err == nil && info.Mode().IsRegular() {
			return place, true
		}
	}
	return "", false
}

// run runs an installer; an error calls it name.
func (p *installer) run(ctx context.Context, argv []string, name string) error {
	ctx, cancel := context.WithTimeout(ctx, packTimeout)
	defer cancel()
	words := proc.Tail{Limit: maxPackWords}
	exit, err := p.reaper.Run(ctx, proc.Spec{Argv: argv, Dir: p.dir, Env: p.env, Stdout: &words, Stderr: &words, Tree: true})
	if err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	if exit.Code != 0 || ctx.Err() != nil {
		return fault.Failed("install_failed", "%s could not be installed (exit %d): %s", name, exit.Code, p.secrets.Text(cleanLine(string(words.Bytes())))).
			WithHint("run it by hand in the sprite: %s", strings.Join(argv, " "))
	}
	return nil
}
