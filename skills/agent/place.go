package agent

import (
	"bytes"
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

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	ownSkills    = "spritekit" // as an entry of the input skills: the skills of this binary
	packTimeout  = 2 * time.Minute
	maxExclude   = 1 << 20
	maxPackWords = 2 << 10 // of a failed installer's output
)

// placeTexts writes instructions and Agent Skills to the places where the agent looks for them. In the private home of the
// session they stay for the next call. In the repository they exist during the call only, are hidden from git, and never
// replace an existing file.
func (l *launch) placeTexts() error {
	if text := l.in.Instructions; text != "" {
		placed := false
		for _, where := range l.adapter.Instructions {
			ok, err := l.placeText(where, text)
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
			if err := l.placeSkill(strings.TrimPrefix(where, "{home}/"), i, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// placeText writes text to a file of the home or the repository. It returns false if the file exists.
func (l *launch) placeText(where, text string) (bool, error) {
	if name, ok := strings.CutPrefix(where, "{home}/"); ok {
		return true, l.writeHome(name, []byte(text+"\n"))
	}
	root := l.call.Root
	rel, err := filepath.Rel(root.Dir(), l.spec.Dir)
	if err != nil {
		return false, err
	}
	name := filepath.Join(rel, strings.TrimPrefix(where, "{cwd}/"))
	if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return false, err // an existing file is not changed
	}
	if err := l.excludeFromGit(name); err != nil {
		return false, err
	}
	l.undo = append(l.undo, func() error { return root.Remove(name) })
	return true, root.WriteFile(name, []byte(text+"\n"), 0o644)
}

// excludeFromGit hides a file from git during the call if it is in a repository.
func (l *launch) excludeFromGit(name string) error {
	root := l.call.Root
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if info, err := root.Lstat(filepath.Join(dir, ".git")); err == nil && info.IsDir() {
			rel, err := filepath.Rel(dir, name)
			if err != nil {
				return err
			}
			return l.excludeIn(filepath.Join(dir, ".git", "info"), "/"+filepath.ToSlash(rel))
		}
		if dir == "." {
			return nil
		}
	}
}

// excludeIn adds a pattern to info/exclude of a repository until the call ends.
func (l *launch) excludeIn(info, pattern string) error {
	root, file := l.call.Root, filepath.Join(info, "exclude")
	before, err := root.ReadFile(file, maxExclude)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return err
	}
	if err := root.MkdirAll(info); err != nil {
		return err
	}
	after := bytes.Clone(before)
	if len(after) > 0 && !bytes.HasSuffix(after, []byte("\n")) {
		after = append(after, '\n')
	}
	after = append(after, pattern+"\n"...)
	l.undo = append(l.undo, func() error {
		now, err := root.ReadFile(file, maxExclude)
		switch {
		case err != nil:
			return err
		case bytes.Equal(now, after) && absent:
			return root.Remove(file)
		case bytes.Equal(now, after):
			return root.WriteFile(file, before, 0o644)
		}
		return root.WriteFile(file, bytes.Replace(now, []byte(pattern+"\n"), nil, 1), 0o644) // another program changed the file as well
	})
	return root.WriteFile(file, after, 0o644)
}

// placeSkill copies a skill from the workspace, or exports our own skills.
func (l *launch) placeSkill(dir string, index int, name string) error {
	root := l.call.Root
	dir = l.private + "/" + dir
	if err := root.MkdirAll(dir); err != nil {
		return err
	}
	if name == ownSkills {
		if l.self == "" {
			return fault.Unsupported("skills_unavailable", "there is no spritekit on PATH or in /skills whose skills could be exported").
				WithHint("install it: spritekit install /skills")
		}
		return l.runInstaller(context.Background(), []string{l.self, "skills", "export", filepath.Join(root.Dir(), dir)}, "the skills of spritekit")
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
func (l *launch) installPacks(ctx context.Context) error {
	for i, name := range l.in.Packs {
		p, ok := l.adapter.Packs[name]
		if !ok {
			known := slices.Sorted(maps.Keys(l.adapter.Packs))
			return fault.Unsupported("unsupported", "/packs/%d: %s has no pack %q", i, l.adapter.Name, name).
				WithHint("known for it: %s", strings.Join(known, ", "))
		}
		folder, ok := l.findPack(p.Package)
		if !ok {
			return fault.Unsupported("pack_missing", "the pack %s needs the package %s, which is not in this sprite", name, p.Package).
				WithHint("install it in the image (npm install -g %s), or unpack it as %s", p.Package, l.pathBesideSelf("packs/"+p.Package))
		}
		l.vars["pack"] = folder
		argv := make([]string, len(p.Argv))
		for i, word := range p.Argv {
			argv[i] = l.vars.Expand(word)
		}
		argv, err := proc.Resolve(argv, l.spec.Env)
		if err != nil {
			return err
		}
		if err := l.runInstaller(ctx, argv, "the pack "+name); err != nil {
			return err
		}
	}
	return nil
}

// findPack returns the folder of an installed package: next to spritekit, or near a folder of PATH.
func (l *launch) findPack(name string) (string, bool) {
	places := []string{l.pathBesideSelf("packs/" + name)}
	for _, dir := range filepath.SplitList(proc.Getenv(l.spec.Env, "PATH", proc.DefaultPath)) {
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

// runInstaller runs an installer; an error calls it name.
func (l *launch) runInstaller(ctx context.Context, argv []string, name string) error {
	ctx, cancel := context.WithTimeout(ctx, packTimeout)
	defer cancel()
	words := proc.Tail{Limit: maxPackWords}
	exit, err := l.reaper.Run(ctx, proc.Spec{Argv: argv, Dir: l.spec.Dir, Env: l.spec.Env, Stdout: &words, Stderr: &words, Tree: true})
	if err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	if exit.Code != 0 || ctx.Err() != nil {
		return fault.Failed("install_failed", "%s could not be installed (exit %d): %s", name, exit.Code, l.secrets.Text(cleanLine(string(words.Bytes())))).
			WithHint("run it by hand in the sprite: %s", strings.Join(argv, " "))
	}
	return nil
}
