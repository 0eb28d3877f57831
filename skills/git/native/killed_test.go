package native

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/spritekit/lattice/skills/git/engine"
)

// killedDir names the repository that a process of this test works in until it is killed.
const killedDir = "NATIVE_TEST_KILLED_DIR"

// TestWorkUntilKilled is that process.
func TestWorkUntilKilled(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		return // it is no test but what TestKilled runs
	}
	b := &bench{tester: t, dir: dir}
	fmt.Println("ready")
	at := engine.Location{Name: "repo", Dir: dir, GitDir: filepath.Join(dir, ".git"), CommonDir: filepath.Join(dir, ".git")}
	for i := 0; ; i++ {
		b.write("d/a", fmt.Sprint(i))
		b.write(fmt.Sprintf("n%d", i%50), fmt.Sprint(i))
		r, err := open(at)
		if err != nil {
			t.Fatal(err)
		}
		spec := commitSpec(fmt.Sprintf("number %d\n", i))
		spec.All = true
		if _, err := r.Commit(context.Background(), spec); err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
}

// TestKilled kills a committing process at any moment: what git then finds is whole, and git and the engine go on from
// there. A lock is left at most, as by git.
func TestKilled(t *testing.T) {
	b := newBench(t)
	base(b)
	for i := range 8 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWorkUntilKilled$")
		cmd.Env = append(os.Environ(), killedDir+"="+b.dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() && lines.Text() != "ready" {
		}
		time.Sleep(time.Duration(30+17*i) * time.Millisecond) // any moment is a good one
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		for _, lock := range []string{"index.lock", "refs/heads/main.lock", "HEAD.lock"} {
			os.Remove(filepath.Join(b.dir, ".git", lock))
		}
		b.sound()
		b.git("status", "--porcelain")
		b.git("log", "-1")
		b.sameStatus(engine.StatusSpec{Untracked: "all"})
	}
	if n := b.git("rev-list", "--count", "HEAD"); n == "2" {
		t.Error("nothing was committed")
	}
	spec := commitSpec("after all\n")
	spec.All, spec.AllowEmpty = true, true
	b.must(func(r *repo) error { _, err := r.Commit(context.Background(), spec); return err })
	b.sound()
}
