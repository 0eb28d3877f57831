package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	powerLosses = flag.Int("power-losses", 2, "how often TestPowerLossAnytime loses the power")
	powerCopies = flag.Int("power-copies", 3, "from how many moments of one disk TestPowerLossCopies goes on; negative: from every write and every flush")
)

// TestPowerLossAnytime loses the disk under a run at random moments: the file system that holds the state is shut down
// without writing back what it has in memory, everything that runs is killed, and what is on the disk is mounted again.
// Whatever was lost, what the origin gets in the end is whole, and it gets it once.
func TestPowerLossAnytime(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a disk takes root")
	}
	const seed = 7
	random := rand.New(rand.NewPCG(seed, uint64(time.Now().UnixNano())))
	for n := range *powerLosses {
		j := newJob(t)
		d := mountImage(t, newImage(t, j.dir), filepath.Join(j.dir, "home"))
		first := time.Duration(random.Int64N(int64(2500 * time.Millisecond)))
		t.Logf("loss %d after %v", n, first)
		j.losePower(t, d, first, random)
		d.unmount(t)
		if t.Failed() {
			return
		}
		j.remove()
	}
}

// TestPowerLossCopies records each write and each flush of the disk below a run, and resumes the run from images of the disk at random
// moments, or at every moment; see writeImage. Each resumed run pushes the same commit, and pushes it once.
func TestPowerLossCopies(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a disk takes root")
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(7, seed))
	j := newJob(t)
	lines := 20000
	if *powerCopies < 0 { // fewer writes, and each is replayed
		lines = 200
	}
	start := j.fixParts(t, lines, "sh check.sh")
	block := newBlockFile(t, newImage(t, j.dir))
	var moments []moment
	block.before = func() { moments = append(moments, moment{len(block.writes), block.flushed, j.pushed()}) }
	j.sh(t, "cp -a origin.git origin-0")
	d := mountImage(t, block.path, filepath.Join(j.dir, "home"))
	j.finish(t, start, lines)
	d.unmount(t)
	j.sh(t, "cp -a origin.git origin-1; cp pushes pushes-1")
	block.mu.Lock()
	defer block.mu.Unlock()
	if block.err != nil {
		t.Fatal(block.err)
	}
	t.Logf("seed %d, %d moments", seed, len(moments))
	all := len(moments)
	for *powerCopies >= 0 && len(moments) > *powerCopies {
		n := random.IntN(len(moments))
		moments = slices.Delete(moments, n, n+1)
	}
	held := block.newReplay(t, filepath.Join(j.dir, "held"))
	begun := time.Now()
	for n, m := range moments {
		image := filepath.Join(j.dir, "copy")
		lost := held.writeImage(t, image, m, random)
		if m.pushed < 0 { // the origin loses nothing
			m.pushed = random.IntN(2)
		}
		j.sh(t, fmt.Sprintf("rm -rf origin.git pushes; cp -a origin-%d origin.git; [ %[1]d = 0 ] || cp pushes-1 pushes", m.pushed))
		d := mountImage(t, image, d.dir)
		next := j.afterKill(t, start)
		if *powerCopies >= 0 || n%100 == 0 {
			t.Logf("copy %d of %d after write %d, without %d of %d that were not flushed: lattice %s", n, all, m.writes, lost, m.writes-m.flushed, next[0])
		}
		j.finish(t, next, lines)
		d.unmount(t)
		if t.Failed() {
			t.Fatalf("the disk at moment %d: %d writes of which %d were flushed, without %d, and %d pushes; it is kept as %s", n, m.writes, m.flushed, lost, m.pushed, j.keep())
		}
	}
	t.Logf("went on from %d moments in %v", len(moments), time.Since(begun).Round(time.Second))
	j.remove()
}

// TestPowerLossInAnAgent loses the power while an agent works, and while two work in forks of the sprite. Each goes on from its last
// turn, with the files and the session of that moment, and takes from the budget once.
func TestPowerLossInAnAgent(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a disk takes root")
	}
	for name, tt := range map[string]struct {
		agents       int
		each, budget string
	}{
		"alone":    {1, `"items": [1]`, "1.50"},
		"in forks": {2, `"items": [1, 2], "concurrency": 2, "sprite": "fork"`, "2.50"},
	} {
		t.Run(name, func(t *testing.T) { losePowerInAgents(t, fmt.Sprintf(turnsFlow, tt.each), tt.budget, tt.agents) })
	}
}

// losePowerInAgents loses the power when all agents of a flow have had two turns.
func losePowerInAgents(t *testing.T, flow, budget string, agents int) {
	j := newJob(t)
	d := mountImage(t, newImage(t, j.dir), filepath.Join(j.dir, "home"))
	j.env = append(j.env, "LATTICE_CONFIG="+j.dir+"/config.toml")
	for name, text := range map[string]string{"config.toml": "", "policy.toml": "budgets.run.usd = " + budget + "\n", "flow.json": flow, "src/agent.sh": turnsAgent} {
		if err := os.WriteFile(filepath.Join(j.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j.sh(t, "git -C src add -A && git -C src commit -q -m agent")
	cmd := exec.Command(j.bin, "run", "flow.json", "--repo", j.dir+"/src")
	var stderr strings.Builder
	cmd.Dir, cmd.Env, cmd.Stderr = j.dir, j.env, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	j.sh(t, fmt.Sprintf(`for i in $(seq 600); do [ "$(lattice turns 2>/dev/null | grep -c 'sh echo')" = %d ] && exit; sleep 0.1; done; lattice turns; exit 1`, 2*agents))
	d.shutdown(t)
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
	d.lose(t)
	if t.Failed() {
		t.Fatal(stderr.String())
	}
	code, out := j.lattice(t, 0, "", "resume")
	for _, want := range []string{`"work": "one two "`, `"started": "agent.sh agent.sh --resume s1 "`, `You were taken back`} {
		if code != 0 || strings.Count(strings.Join(strings.Fields(out), " "), want) != agents {
			t.Errorf("resume: exit %d without %d times %s\n%s", code, agents, want, out)
		}
	}
	j.sh(t, fmt.Sprintf("lattice replay; test $(lattice turns | grep -c 'sh echo') = %d; lattice show | grep 'limit $%s'; lattice audit verify", 2*agents, budget))
	d.unmount(t)
	if !t.Failed() {
		j.remove()
	}
}

// turnsAgent is an agent with two turns. It goes on when a tool was noticed and when the turn was kept, and hangs before it ends unless it is resumed.
const turnsAgent = `echo "agent.sh $*" | sed 's/ *$//' >>started
do_turn() {
	echo '{"turn":true}'
	echo '{"call":"t'$1'","input":"echo '$2'"}'
	until grep -q '"total":'$1 /workspace/.lattice/agents/calls/*.json; do sleep 0.02; done
	echo $2 >>work
	echo '{"result":"t'$1'"}'
	echo '{"result":"t'$1'"}' >>$HOME/s1.jsonl
	until [ $(grep -c '"kind":"agent_turn"' /workspace/.lattice/outbox.jsonl) -ge $1 ]; do sleep 0.02; done
}
prompt=$(cat)
echo '{"session":"s1"}'
if [ "$1" != --resume ]; then
	do_turn 1 one
	do_turn 2 two
	echo lost >>work
	exec sleep 600
fi
[ $(wc -l <$HOME/s1.jsonl) = 2 ] || exit 1
echo '{"turn":true}'
echo '{"text":"'"$prompt"'"}'
echo '{"end":true}'
`

// turnsFlow lets turnsAgent work for each item. Budgets in which two reservations for each do not fit are 1.5 dollars for one and 2.5
// for two of them.
const turnsFlow = `{"execir_version": "1.0", "id": "turns", "ctx_requires": ["repo"], "entry_node": "clone", "output": "$vars.said",
 "edges": [{"from": "clone", "to": "agents"}],
 "nodes": [
  {"id": "clone", "op": "TOOL_CALL", "tool": "git.clone", "args": {"url": "$ctx.repo.bundle", "dest": "$ctx.repo.path"}},
  {"id": "agents", "op": "MAP", %s, "max_items": 2, "outputs": {"result": "$vars.said"},
   "result": {"said": "$tmp.agent.final_text", "started": "$tmp.started.stdout", "work": "$tmp.work.stdout"}, "body": {
   "entry_node": "agent", "edges": [{"from": "agent", "to": "started"}, {"from": "started", "to": "work"}], "nodes": [
   {"id": "agent", "op": "TOOL_CALL", "tool": "agent.run", "outputs": {"result": "$tmp.agent"}, "args": {
    "prompt": "work", "cwd": "$ctx.repo.path", "mcp": {"spritekit": false}, "limits": {"max_cost_usd": 1},
    "adapter": {"name": "worker", "programs": ["sh"], "argv": ["agent.sh", {"if": "session_mode=resume", "args": ["--resume", "{session}"]}], "resumes": true,
      "session": {"path": "{home}/{session}.jsonl", "result": "\"result\":"},
      "events": [
        {"when": {"end": true}, "is": "end"}, {"when": {"turn": true}, "is": "turn"}, {"when": {"session": "s1"}, "is": "start", "take": {"session": "session"}},
        {"when": {"call": ["t1", "t2"]}, "is": "tool_call", "take": {"id": "call", "input": "input"}, "set": {"name": "sh"}},
        {"when": {"result": ["t1", "t2"]}, "is": "tool_result", "take": {"id": "result"}},
        {"when": {"end": null, "turn": null, "session": null, "call": null, "result": null}, "is": "text", "take": {"text": "text"}}]}}},
   {"id": "started", "op": "TOOL_CALL", "tool": "exec.run", "outputs": {"result": "$tmp.started"}, "args": {"command": "tr '\\n' ' ' <started", "cwd": "$ctx.repo.path"}},
   {"id": "work", "op": "TOOL_CALL", "tool": "exec.run", "outputs": {"result": "$tmp.work"}, "args": {"command": "tr '\\n' ' ' <work", "cwd": "$ctx.repo.path"}}]}}]}`

// pushed returns how many pushes the origin has, -1 while one is arriving.
func (j *job) pushed() int {
	refs, _ := filepath.Glob(j.dir + "/origin.git/refs/heads/lattice/*")
	pushes, _ := os.ReadFile(j.dir + "/pushes")
	incoming, _ := filepath.Glob(j.dir + "/origin.git/objects/*incoming*")
	if n := strings.Count(string(pushes), "\n"); n == len(refs) && len(incoming) == 0 {
		return n
	}
	return -1
}

// finish drives the job to its end and looks at what the origin got.
func (j *job) finish(t *testing.T, next []string, lines int) {
	t.Helper()
	for range 20 {
		switch code, out := j.until(t, nil, next, 0, false); code {
		case 0:
			j.whole(t, lines)
			return
		case 75:
			next = []string{"approve"}
		default:
			t.Errorf("lattice %s: exit %d\n%s", strings.Join(next, " "), code, out)
			return
		}
	}
	t.Error("the run does not end")
}

// fixParts writes the input of a run whose agent writes files of which it syncs the last one alone, and returns the
// command that starts it.
func (j *job) fixParts(t *testing.T, lines int, test string) []string {
	t.Helper()
	input := fmt.Sprintf(`{"agent_command":["sh","-c","for i in 1 2 3 4 5 6; do seq %d >part$i; done; echo fixed >state; sync state"],"test_command":%q}`, lines, test)
	if err := os.WriteFile(j.dir+"/input.json", []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"run", "fix-and-propose", "--repo", j.dir + "/origin.git", "--input-file", j.dir + "/input.json"}
}

// losePower drives the job to its end. The power goes after the given time, and once more while the run waits or goes on.
func (j *job) losePower(t *testing.T, d *disk, after time.Duration, random *rand.Rand) {
	t.Helper()
	const lines = 20000
	start := j.fixParts(t, lines, "sh -c 'sleep 1; sh check.sh'")
	next, losses := start, 2
	for range 20 {
		code, out := j.until(t, d, next, after, losses > 0)
		switch {
		case code == 0:
			j.whole(t, lines)
			return
		case code == 75:
			if losses > 0 { // while it waits
				losses--
				d.lose(t)
			}
			next = []string{"approve"}
		case code == -1:
			losses--
			next = j.afterKill(t, start)
		default:
			t.Errorf("lattice %s: exit %d\n%s", strings.Join(next, " "), code, out)
			return
		}
		after = time.Duration(random.Int64N(int64(1200 * time.Millisecond)))
	}
	t.Error("the run does not end")
}

// until runs a command that drives the run. It loses the power after the given time, if it may, and then returns -1.
func (j *job) until(t *testing.T, d *disk, args []string, after time.Duration, lose bool) (int, string) {
	t.Helper()
	cmd := exec.Command(j.bin, args...)
	cmd.Dir, cmd.Env = j.dir, j.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	timer := time.NewTimer(after)
	defer timer.Stop()
	if !lose {
		timer.Stop()
	}
	select {
	case <-done:
		return cmd.ProcessState.ExitCode(), out.String()
	case <-timer.C:
	}
	d.shutdown(t)
	_ = cmd.Process.Kill() // it may have ended
	<-done
	d.lose(t)
	return -1, out.String()
}

// whole looks at what the origin got.
func (j *job) whole(t *testing.T, lines int) {
	t.Helper()
	var view struct {
		RunID  string `json:"run_id"`
		Sprite string `json:"sprite"`
	}
	_, out := j.lattice(t, 0, "", "show", "--json")
	if err := json.Unmarshal([]byte(out), &view); err != nil {
		t.Fatalf("show: %v: %s", err, out)
	}
	j.judge(t, view.RunID, view.Sprite, "-pushes", "pushes")
	j.sh(t, fmt.Sprintf(`git -C origin.git fsck --strict
		seq %d >want
		for i in 1 2 3 4 5 6; do git -C origin.git show lattice/%s:part$i | cmp - want; done
		test "$(git -C origin.git show lattice/%[2]s:state)" = fixed
		test "$(git -C origin.git rev-list --count main..lattice/%[2]s)" = 1
		lattice replay %[2]s`, lines, view.RunID))
}

// disk is a file with a file system that is mounted as the state directory of a job.
type disk struct {
	image, dir string
}

// newImage makes a file with an empty file system.
func newImage(t *testing.T, dir string) string {
	t.Helper()
	image := filepath.Join(dir, "disk")
	for _, command := range [][]string{{"truncate", "-s", "1G", image}, {"mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no disk can be made here: %s: %v: %s", command[0], err, out)
		}
	}
	return image
}

func mountImage(t *testing.T, image, dir string) *disk {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("no disk can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // of a test that failed
	return &disk{image: image, dir: dir}
}

// shutdown ends the file system at once: nothing more is written, and what is in memory only is lost.
func (d *disk) shutdown(t *testing.T) {
	t.Helper()
	const (
		ext4Shutdown = 0x8004587d // EXT4_IOC_SHUTDOWN
		noLogFlush   = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH
	)
	f, err := os.Open(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), ext4Shutdown, noLogFlush); err != nil && !errors.Is(err, unix.EIO) {
		t.Fatalf("shut the file system down: %v", err)
	}
}

// lose shuts the file system down and mounts again what is on the disk, once nothing uses it any more.
func (d *disk) lose(t *testing.T) {
	t.Helper()
	d.shutdown(t)
	d.unmount(t)
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput(); err != nil {
		t.Fatalf("mount the disk again: %v: %s", err, out)
	}
}

// unmount returns when no mount namespace holds the disk any more.
func (d *disk) unmount(t *testing.T) {
	t.Helper()
	var used []byte
	var err error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = unix.Unmount(d.dir, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			continue
		}
		if used, err = exec.Command("losetup", "-j", d.image).Output(); err == nil && len(used) == 0 {
			return
		}
	}
	t.Fatalf("unmount the disk: %v, still used by %s", err, used)
}
