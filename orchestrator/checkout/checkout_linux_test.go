package checkout

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newJob returns a job on a repository of one commit.
func newJob(t *testing.T, command string) (Job, *bytes.Buffer) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	repository := filepath.Join(dir, "repository")
	out, err := exec.Command("sh", "-c", `git init -q "$0" && cd "$0" && echo one >file && git add file && git -c user.name=a -c user.email=a@b commit -qm one && echo two >file`, repository).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	log := &bytes.Buffer{}
	return Job{
		Repository: repository, Folder: filepath.Join(dir, Prefix+"LAT-1"), Commit: "HEAD", Command: command, Input: "Look for ones.",
		Environ: append(os.Environ(), "CLAUDECODE=1", "SECRET=s"), Variables: []string{"LATTICE_TASK_ID=task_1"}, Event: "ev_" + filepath.Base(dir) + t.Name(), Timeout: time.Minute, Log: log,
	}, log
}

func TestRun(t *testing.T) {
	j, log := newJob(t, `cat; cat file; echo "$LATTICE_TASK_ID $CLAUDECODE $SECRET"; echo noted >&2; echo changed >file; echo temporary >"$TMPDIR/file" && cat "$TMPDIR/file"; [ "$(cut -d' ' -f6 /proc/$$/stat)" = $$ ] && echo alone`)
	report, err := Run(t.Context(), j)
	if want := "Look for ones.one\ntask_1  \ntemporary\nalone\n"; err != nil || report != want {
		t.Errorf("Run = %q, %v, want %q", report, err, want)
	}
	if !strings.Contains(log.String(), "noted") {
		t.Errorf("the log is %q", log)
	}
	checkGone(t, j)
}

func TestRunFails(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		name   string
		change func(*Job)
		ctx    context.Context
		want   string
	}{
		{"exit code", func(j *Job) { j.Command = "exit 3" }, t.Context(), "exited with code 3"},
		{"timeout", func(j *Job) { j.Command, j.Timeout = "sleep 1000", 10*time.Millisecond }, t.Context(), "ended after 10ms"},
		{"end of lattice", func(*Job) {}, ended, "git worktree add"},
		{"no such commit", func(j *Job) { j.Commit = "nothing" }, t.Context(), "git worktree add"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, _ := newJob(t, "true")
			c.change(&j)
			if _, err := Run(c.ctx, j); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Run = %v, want %q", err, c.want)
			}
			checkGone(t, j)
		})
	}
}

// A process that left the session of the command ends with it.
func TestRunEndsAll(t *testing.T) {
	j, _ := newJob(t, `setsid sh -c 'echo $$ >"$0"; exec sleep 1000' "$PWD/../pid" >/dev/null 2>&1 & while ! [ -s ../pid ]; do sleep 0.01; done`)
	j.Writable = []string{filepath.Dir(j.Folder)}
	if _, err := Run(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	pid, err := os.ReadFile(filepath.Join(filepath.Dir(j.Folder), "pid"))
	if err != nil {
		t.Fatal(err)
	}
	for { // it has been killed, and ends
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if err != nil || bytes.Contains(state, []byte(") Z ")) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	checkGone(t, j)
}

// After a crash, Clean removes the worktree, also one whose folder is gone.
func TestClean(t *testing.T) {
	j, _ := newJob(t, "")
	for _, gone := range []bool{false, true} {
		if err := runGit(t.Context(), j.Repository, "worktree", "add", "--quiet", "--detach", j.Folder, "HEAD"); err != nil {
			t.Fatal(err)
		}
		if list, err := List(t.Context(), j.Repository); err != nil || len(list) != 1 || list[0] != j.Folder {
			t.Errorf("List = %v, %v", list, err)
		}
		if gone {
			if err := os.RemoveAll(j.Folder); err != nil {
				t.Fatal(err)
			}
		}
		if err := Clean(t.Context(), j.Repository, j.Folder, ""); err != nil {
			t.Error(err)
		}
		checkGone(t, j)
	}
	if err := Clean(t.Context(), j.Repository, j.Repository, ""); err == nil {
		t.Error("a folder that is no worktree of a worker is removed")
	}
}

func checkGone(t *testing.T, j Job) {
	t.Helper()
	if list, err := List(t.Context(), j.Repository); err != nil || len(list) > 0 {
		t.Errorf("the repository has the worktrees %v, %v", list, err)
	}
	if _, err := os.Lstat(j.Folder); err == nil {
		t.Errorf("%s exists", j.Folder)
	}
	if text, err := os.ReadFile(filepath.Join(j.Repository, "file")); err != nil || string(text) != "two\n" {
		t.Errorf("the file of the repository is %q, %v", text, err)
	}
}
