package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var killStride = flag.Int("kill-stride", 0, "kill after every n-th durable write only; 0: after every fourth, and as an ordinary user, whose durable writes are the same, after others than as root")

// kills returns the first durable write after which tests kill, and the distance to the next.
func kills() (start, stride int) {
	switch {
	case *killStride > 0:
		return 1, *killStride
	case os.Getuid() == 0:
		return 1, 4
	}
	return 3, 4
}

// TestKillEverywhere runs the main job with a kill -9 after the k-th durable write, for growing k until a run gets to its end
// unharmed: of the leader, of the sprite's init, and of the leader after writes of the audit log. Whatever was killed, the run ends
// the same: pushed once, each event once and in order. An independent checker is the judge.
func TestKillEverywhere(t *testing.T) {
	for _, victim := range []string{"leader", "init", "audit"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			start, stride := kills()
			for k := start; ; k += stride {
				job := newJob(t)
				killed := job.run(t, k, victim)
				job.check(t)
				if t.Failed() {
					t.Fatalf("killed the %s after durable write %d", victim, k)
				}
				job.remove()
				if !killed {
					t.Logf("killed the %s after up to %d durable writes", victim, k-1)
					return
				}
			}
		})
	}
}

// job is one main job on a repository of its own.
type job struct {
	dir, bin string
	env      []string
	kills    plan            // kills at moments, of TestKillAnytime
	drove    []time.Duration // how long each command took that drives the run
	hits     []hit           // what the kills met
}

func newJob(t *testing.T) *job {
	t.Helper()
	dir, err := os.MkdirTemp(buildDir, "job-")
	if err != nil {
		t.Fatal(err)
	}
	j := &job{dir: dir, bin: lookLattice(t)}
	// Without this machine's shared Go cache, to which each new state directory makes thousands of links.
	j.env = append(os.Environ(), "LATTICE_HOME="+dir+"/home", "XDG_CACHE_HOME="+dir+"/cache", "PATH="+buildDir+":"+os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@localhost", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@localhost")
	j.sh(t, `git init -q -b main src
		printf 'broken\n' >src/state
		printf 'grep -q fixed state\n' >src/check.sh
		git -C src add -A && git -C src commit -q -m 'first'
		git clone -q --bare src origin.git
		printf '#!/bin/sh\ncat >>%s/pushes\n' "$PWD" >origin.git/hooks/post-receive
		chmod +x origin.git/hooks/post-receive`)
	return j
}

// run drives the job to its end as a person would: start, resume when it was cut off, approve when it waits.
func (j *job) run(t *testing.T, at int, victim string) (killed bool) {
	t.Helper()
	input := `{"agent_command":["sh","-c","cat >/dev/null; printf 'fixed\\n' >state"],"test_command":"sh check.sh","prompt":"fix it"}`
	if err := os.WriteFile(j.dir+"/input.json", []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	next := []string{"run", "fix-and-propose", "--repo", j.dir + "/origin.git", "--input-file", j.dir + "/input.json"}
	for range 12 {
		code, out := j.lattice(t, at, victim, next...)
		switch code {
		case 0:
			if at == 0 {
				return true
			}
			return j.writes() >= at
		case 75:
			next = []string{"approve"}
		case -1: // killed
			next = j.afterKill(t, next)
		default:
			t.Errorf("lattice %s: exit %d\n%s", strings.Join(next, " "), code, out)
			return true
		}
	}
	t.Error("the run does not end")
	return true
}

// afterKill picks what a person would do next: start again when nothing was recorded, else go on.
func (j *job) afterKill(t *testing.T, last []string) []string {
	_, list := j.lattice(t, 0, "", "runs", "--json")
	var runs []json.RawMessage
	if err := json.Unmarshal([]byte(list), &runs); err != nil {
		t.Fatalf("runs: %v: %s", err, list)
	}
	if len(runs) == 0 {
		return last
	}
	return []string{"resume"}
}

// check asks the independent checker, and looks at the origin.
func (j *job) check(t *testing.T) {
	t.Helper()
	var view struct {
		RunID  string `json:"run_id"`
		Sprite string `json:"sprite"`
		Status string `json:"status"`
	}
	_, out := j.lattice(t, 0, "", "show", "--json")
	if err := json.Unmarshal([]byte(out), &view); err != nil || view.Status != "succeeded" {
		t.Errorf("show: %v: %s", err, out)
		return
	}
	_, record := j.lattice(t, 0, "", "audit", "ls", view.RunID, "--json")
	if n := strings.Count(record, `"kind":"action.performed"`); n != 1 {
		t.Errorf("the audit log has %d performed actions, want 1:\n%s", n, record)
	}
	j.lattice(t, 0, "", "audit", "verify")
	j.judge(t, view.RunID, view.Sprite, "-pushes", "pushes")
	j.sh(t, `git -C origin.git fsck --strict
		test "$(git -C origin.git show lattice/`+view.RunID+`:state)" = fixed
		test "$(git -C origin.git rev-list --count main..lattice/`+view.RunID+`)" = 1`)
}

// judge asks the independent checker about a run: it reads the journal, the outbox of the sprite if that is still there, and what came to
// the origin.
func (j *job) judge(t *testing.T, run, sprite string, flags ...string) {
	t.Helper()
	flags = append([]string{"-journal", j.dir + "/journal"}, flags...)
	outputs := [][]string{{"journal", "events", run, "--journal", "--json"}}
	if sprite != "" { // read last: a run that goes on writes there first
		const outbox = "/workspace/.lattice/outbox.jsonl" // missing if no skill was called
		outputs = append(outputs, []string{"outbox", "sprite", "exec", sprite, "--", "sh", "-c", "test ! -e " + outbox + " || cat " + outbox})
		flags = append(flags, "-outbox", j.dir+"/outbox", "-sprite", sprite)
	}
	for _, args := range outputs {
		cmd := exec.Command(j.bin, args[1:]...)
		cmd.Dir, cmd.Env = j.dir, j.env
		out, err := cmd.Output()
		if err == nil {
			err = os.WriteFile(filepath.Join(j.dir, args[0]), out, 0o600)
		}
		if err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				err = fmt.Errorf("%w: %s", err, exit.Stderr)
			}
			t.Errorf("%v: %v", cmd, err)
			return
		}
	}
	cmd := exec.Command(buildDir+"/checkrun", flags...)
	cmd.Dir = j.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		kept, keepErr := os.MkdirTemp("", "lattice-judged-") // which stays
		for _, args := range outputs {
			keepErr = errors.Join(keepErr, os.Rename(filepath.Join(j.dir, args[0]), filepath.Join(kept, args[0])))
		}
		t.Errorf("the checker of run %s: %v; its witnesses are in %s (%v)\n%s", run, err, kept, keepErr, out)
	}
}

// judgeAll is judge for the newest runs of the job.
func (j *job) judgeAll(t *testing.T, flags ...string) {
	t.Helper()
	_, list := j.lattice(t, 0, "", "runs", "--limit", "20", "--json")
	var runs []struct {
		ID     string `json:"run_id"`
		Sprite string `json:"sprite"`
		Status string `json:"status"`
	}
	if err := json.Unmarshal([]byte(list), &runs); err != nil {
		t.Fatalf("runs: %v: %s", err, list)
	}
	_, list = j.lattice(t, 0, "", "sprite", "ls", "--json")
	for _, r := range runs {
		if !strings.Contains(list, `"`+r.Sprite+`"`) {
			r.Sprite = ""
		}
		all := flags
		if r.Status == "waiting" || r.Status == "running" || r.Status == "pending" {
			all = append([]string{"-open"}, flags...)
		}
		j.judge(t, r.ID, r.Sprite, all...)
	}
}

func (j *job) lattice(t *testing.T, at int, victim string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.Command(j.bin, args...)
	cmd.Dir, cmd.Env = j.dir, append(j.env, "KILL_COUNTER="+j.counter(), "KILL_AT="+strconv.Itoa(at), "KILL_VICTIM="+victim)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hits := len(j.hits)
	driven := func() {}
	if args[0] == "run" || args[0] == "approve" || args[0] == "resume" {
		driven = j.driving(cmd.Process)
	}
	_ = cmd.Wait() // the exit code says it all
	driven()
	switch code := cmd.ProcessState.ExitCode(); {
	case code <= 0 || code == 75:
		return code, stdout.String()
	case len(j.hits) > hits && strings.Contains(stderr.String(), "try: lattice resume"):
		return -1, "" // a sandbox that dies as it starts stops the run, and the command says how to go on
	case at == 0:
		t.Errorf("lattice %s: exit %d\n%s", strings.Join(args, " "), code, stderr.String())
		fallthrough
	default:
		return code, stderr.String()
	}
}

func (j *job) counter() string { return j.dir + "/counter" }

// writes is how many durable writes the job has made.
func (j *job) writes() int {
	info, err := os.Stat(j.counter())
	if err != nil {
		return 0
	}
	return int(info.Size())
}

func (j *job) sh(t *testing.T, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-eu", "-c", script)
	cmd.Dir, cmd.Env = j.dir, j.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func (j *job) remove() { _ = os.RemoveAll(j.dir) }

// lookLattice finds the command that testscript made of this test binary.
func lookLattice(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("lattice")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
