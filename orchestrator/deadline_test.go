package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A leader in which a write to the store never comes back cannot put its runs down. It ends all the same when it is told
// to, says so, writes down where it hung, and the run goes on.
func TestSignalsEndWhatHangs(t *testing.T) {
	t.Parallel()
	job := newJob(t)
	defer job.remove()
	input := `{"agent_command":["sh","-c","cat >/dev/null; printf 'fixed\\n' >state"],"test_command":"sh check.sh","prompt":"fix it"}`
	if err := os.WriteFile(job.dir+"/input.json", []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(job.bin, "run", "fix-and-propose", "--repo", job.dir+"/origin.git", "--input-file", job.dir+"/input.json")
	cmd.Dir, cmd.Env = job.dir, append(job.env, "KILL_COUNTER="+job.counter(), "KILL_AT=4", "KILL_VICTIM=none", "END_WITHIN=1s")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for job.writes() < 4 {
		select {
		case err := <-ended:
			t.Fatalf("it ended by itself: %v\n%s", err, stderr.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		<-ended
		t.Fatal("a leader that hangs does not end")
	}
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(stderr.String(), "ended by force") {
		t.Errorf("exit %d\n%s", code, stderr.String())
	}
	stacks, err := os.ReadFile(filepath.Join(job.dir, "home", "logs", "hang.log"))
	if err != nil || !strings.Contains(string(stacks), "killer).Append") {
		t.Errorf("hang.log: %v\n%s", err, stacks)
	}
	if code, out := job.lattice(t, 0, "", "resume"); code != 75 {
		t.Fatalf("resume: exit %d\n%s", code, out)
	}
	if code, out := job.lattice(t, 0, "", "approve"); code != 0 {
		t.Fatalf("approve: exit %d\n%s", code, out)
	}
	job.check(t)
}
