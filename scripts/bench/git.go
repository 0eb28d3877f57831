package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// The numbers of files in the repositories in which git's skills are measured.
const (
	gitFiles     = 1000
	gitManyFiles = 30_000 // for git.add, which reads the index twice: once to stage and once to list the staged files
)

// gitCalls compares git.* with the commands that people would type. A skill is a process that starts git: it may take as long
// as git, a skill with very little work, and 2 ms. A skill that writes also makes its result durable, and so does
// the one that it is compared with.
func gitCalls(ctx context.Context, dir string, rounds int) ([]figure, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return []figure{{Name: "git.*", Skipped: "git is not on this machine"}}, nil
	}
	space := filepath.Join(dir, "gits")
	for _, side := range []string{"ours", "theirs"} {
		if err := errors.Join(plantRepo(ctx, filepath.Join(space, side), gitFiles), plantRepo(ctx, filepath.Join(space, "many-"+side), gitManyFiles)); err != nil {
			return nil, err
		}
	}
	var figures []figure
	n := 0
	for _, q := range []struct {
		verb, input string
		many        bool // in the large repository
		git         []string
		change      bool     // a file, before each round
		then        []string // git's arguments, after that
		empty       string   // the skill that does next to nothing
	}{
		{verb: "status", git: []string{"status", "--porcelain=v2", "--branch", "-z"}, empty: "fs.stat"},
		{verb: "log", input: `,"max_count":20`, git: []string{"log", "-20"}, empty: "fs.stat"},
		{verb: "rev_parse", input: `,"refs":["HEAD"]`, git: []string{"rev-parse", "HEAD"}, empty: "fs.stat"},
		{verb: "branch", git: []string{"branch", "-vv"}, empty: "fs.stat"},
		{verb: "diff", git: []string{"diff"}, change: true, empty: "fs.stat"},
		{verb: "add", input: `,"paths":["d0/f0.txt"]`, git: []string{"add", "d0/f0.txt"}, change: true, empty: "fs.mkdir"},
		{verb: "commit", input: `,"message":"m"`, git: []string{"commit", "-q", "-m", "m"}, change: true, then: []string{"add", "d0/f0.txt"}, empty: "fs.mkdir"},
		{verb: "add", input: `,"all":true`, many: true, git: []string{"add", "--all"}, change: true, empty: "fs.mkdir"},
	} {
		prefix, title, target := "", "git."+q.verb, 2.0
		if q.many {
			prefix, title, target = "many-", fmt.Sprintf("git.%s in %d files", q.verb, gitManyFiles), 20
		}
		input, empty := filepath.Join(dir, "git.json"), filepath.Join(dir, "empty.json")
		if err := os.WriteFile(input, []byte(`{"repo":"`+prefix+`ours"`+q.input+`}`), 0o600); err != nil {
			return nil, err
		}
		if err := os.WriteFile(empty, []byte(`{"path":"ours"}`), 0o600); err != nil {
			return nil, err
		}
		before := func(repo string) func() error {
			return func() error {
				if !q.change {
					return nil
				}
				n++
				repo := prefix + repo
				if err := os.WriteFile(filepath.Join(space, repo, "d0", "f0.txt"), fmt.Appendf(nil, "change %d\n", n), 0o600); err != nil || q.then == nil {
					return err
				}
				return runGit(ctx, filepath.Join(space, repo), q.then...)
			}
		}
		env := []string{"LATTICE_WORKSPACE=" + space}
		ours := &contender{name: title, argv: []string{filepath.Join(dir, "skills", "git."+q.verb)}, stdin: input, env: env, seen: `"engine":"system"`, before: before("ours")}
		theirs := &contender{name: "git", argv: append([]string{"git", "-C", prefix + "theirs"}, q.git...), before: before("theirs")}
		none := &contender{name: q.empty, argv: []string{filepath.Join(dir, "skills", q.empty)}, stdin: empty, env: env, seen: `"ok":true`}
		if err := race(ctx, space, rounds, []*contender{ours, theirs, none}); err != nil {
			return nil, err
		}
		var over []float64
		for i := range ours.times {
			over = append(over, 1000*(ours.times[i]-theirs.times[i]-none.times[i]))
		}
		figures = append(figures,
			figure{Name: ours.name, Value: 1000 * median(ours.times), Unit: "ms", Ratio: ours.against(theirs), Beside: "git " + q.git[0]},
			figure{Name: ours.name + " over git and " + q.empty, Value: median(over), Unit: "ms"}.atMost(median(over), target),
			figure{Name: ours.name + ", peak memory beside git's", Value: ours.peak, Unit: "MiB"}.atMost(ours.peak, 64))
	}
	return figures, nil
}

// plantRepo makes a repository with some history. Its files are an hour old, because git reads each file that is as new
// as the index.
func plantRepo(ctx context.Context, repo string, files int) error {
	old := time.Now().Add(-time.Hour)
	for i := range files {
		name := filepath.Join(repo, fmt.Sprintf("d%d", i%20), fmt.Sprintf("f%d.txt", i/20))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := errors.Join(os.WriteFile(name, fmt.Appendf(nil, "file %d\n", i), 0o600), os.Chtimes(name, old, old)); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.name", "Bench"}, {"config", "user.email", "bench@example.com"}, {"config", "gc.auto", "0"}, {"add", "-A"}, {"commit", "-q", "-m", "first"}} {
		if err := runGit(ctx, repo, args...); err != nil {
			return err
		}
	}
	for i := range 30 {
		if err := runGit(ctx, repo, "commit", "-q", "--allow-empty", "-m", fmt.Sprintf("commit %d", i)); err != nil {
			return err
		}
	}
	return nil
}

func runGit(ctx context.Context, repo string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = repo
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %v: %w\n%s", args, err, out)
	}
	return nil
}
