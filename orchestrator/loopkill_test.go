package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var soakLoops = flag.Int("soak-loops", 0, "kill so many loops at random moments; 0 kills two short ones")

// loopAgent does the step of the plan that has the number of its iteration. Steps other than done leave something to do: cheat changes
// the test and says DONE, lie says DONE, crash ends half-way, ask wants an answer.
const loopAgent = `L=/workspace/.lattice/loop
n=$(sed -n 's/.*"iteration": \([0-9]*\).*/\1/p' $L/session.json)
echo x >>work.$n
step=$(sed -n "${n}p" plan)
say() { printf '[{"description":"fix it","passes":%s}]' $1 >$L/tasks.json; printf '{"status":"%s","summary":"%s","question":"Which?"}' $2 ${step:-done} >$L/state.json; }
case $step in
cheat) mkdir -p tests; echo true >tests/check.sh; say true DONE ;;
lie) say true DONE ;;
crash) printf '{"status":"DO' >$L/state.json; exit 3 ;;
ask) say false NEEDS_INPUT ;;
work) say false CONTINUE ;;
*) echo fixed >state; say true DONE ;;
esac
`

// loopSteps are the steps of a plan with the decisions about them.
var loopSteps = map[string]string{"cheat": "refuse", "lie": "refuse", "crash": "crashed", "ask": "needs_input", "work": "continue"}

// TestKillLoops kills loops at random moments, each one to three times, until it is done: its process, or its sprite's init. The log, the
// files of the commits and git say afterwards that no iteration was lost or worked twice, and that done was true. As many loops as
// -parallel allows work side by side, each in a state directory of its own.
func TestKillLoops(t *testing.T) {
	t.Parallel()
	again, err := parsePlan(*soakPlan)
	if err != nil {
		t.Fatal(err)
	}
	s := loopSoak{seed: cmp.Or(*soakSeed, uint64(time.Now().UnixNano())), typical: []time.Duration{2 * time.Second}, start: time.Now()}
	loops := cmp.Or(*soakLoops, 2)
	t.Cleanup(func() {
		t.Logf("%d of %d loops, %d killed, in %v, seed %d\n%v", s.ended, loops, s.killed, time.Since(s.start).Round(time.Second), s.seed, s.hits)
	})
	first := 0
	if *soakLoops > 0 { // one that lives shows how long the commands take on this machine
		s.test(t, 0, nil)
		first = 1
	}
	for n := first; n < loops && !t.Failed(); n++ {
		t.Run(strconv.Itoa(n+1), func(sub *testing.T) {
			sub.Parallel()
			if t.Failed() {
				sub.SkipNow() // the folder of the one that failed is kept
			}
			s.test(sub, n, func(r *rand.Rand) plan {
				if again != nil {
					return again
				}
				if *soakLoops == 0 && n == 1 { // at least one of the two is killed in its first iteration
					return plan{{"leader", 1, time.Second}}
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				return randomPlan(r, s.typical)
			})
		})
	}
}

// loopSoak is shared by the loops of TestKillLoops.
type loopSoak struct {
	seed  uint64
	start time.Time

	mu            sync.Mutex // guards what follows
	typical       []time.Duration
	hits          histogram
	ended, killed int
}

// test makes the n-th loop, with the kills that choose returns, and judges it.
func (s *loopSoak) test(t *testing.T, n int, choose func(*rand.Rand) plan) {
	r := rand.New(rand.NewPCG(s.seed, uint64(n)))
	j := newJob(t)
	most := 1
	if *soakLoops > 0 {
		most = 3
	}
	if choose != nil {
		j.kills = choose(r)
	}
	var steps []string
	for range 1 + r.IntN(most) {
		steps = append(steps, []string{"cheat", "lie", "crash", "ask", "work"}[r.IntN(5)])
	}
	seen := j.driveLoop(t, steps)
	j.checkLoop(t, steps, seen)
	if t.Failed() {
		t.Fatalf("loop %d of seed %d with the steps %v, killed the %v; its folder is %s\nto make these kills again, which may hit elsewhere:\n"+
			"\tgo test ./orchestrator -run TestKillLoops -soak-loops 50 -soak-plan %s", n+1, s.seed, steps, j.hits, j.keep(), j.kills)
	}
	j.remove()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits.add(j.hits)
	s.ended++
	switch {
	case len(j.hits) > 0:
		s.killed++
	case len(j.kills) == 0:
		s.typical = j.drove
	}
	t.Logf("steps %v, killed %v, %d states; %d loops after %v", steps, j.hits, len(seen), s.ended, time.Since(s.start).Round(time.Second))
}

// loopSeen is the part of lattice loop status --json that people rely on.
type loopSeen struct {
	RunID  string `json:"run_id"`
	Status string `json:"status"`
	Run    string `json:"run_status"`
	Count  int    `json:"iteration_count"`
	Sprite string `json:"sprite"`
}

// driveLoop does what a person would until the loop has pushed its result. It returns all states that the person saw.
func (j *job) driveLoop(t *testing.T, plan []string) (seen []loopSeen) {
	t.Helper()
	j.sh(t, `mkdir src/tests && cp src/check.sh src/tests/check.sh && echo Fix. >spec.md
cat >src/agent.sh <<'X'
`+loopAgent+`X
printf '`+strings.Join(plan, `\n`)+`\n' >src/plan
git -C src add -A && git -C src commit -qm agent && git -C src push -q ../origin.git main && rm -f pushes`)
	begin := []string{"loop", "start", "--repo", j.dir + "/origin.git", "--spec", "spec.md", "--agent-command", "sh agent.sh", "--verify", "sh tests/check.sh", "--name", "killed", "--stuck-after", "20"}
	next := begin
	for range 40 {
		j.runLoop(t, next...)
		code, out := j.runLoop(t, "loop", "status", "killed", "--json")
		var v loopSeen
		if code == 3 { // nothing was recorded
			next = begin
			continue
		}
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatalf("status: exit %d, %v: %s", code, err, out)
		}
		seen = append(seen, v)
		switch {
		case v.Run == "succeeded":
			return seen
		case v.Status == "done":
			next = []string{"loop", "done", "killed", "--yes"}
		case v.Status == "needs_input":
			next = []string{"loop", "resume", "killed", "--answer", "this"}
		case v.Run == "failed" || v.Run == "canceled":
			t.Errorf("the loop ended: %s", out)
			return seen
		default:
			next = []string{"loop", "resume", "killed"}
		}
	}
	t.Errorf("the loop does not end; it was seen as %+v", seen)
	return seen
}

// runLoop runs a command about a loop. Commands that drive it are killed as planned.
func (j *job) runLoop(t *testing.T, args ...string) (int, string) {
	t.Helper()
	cmd := exec.Command(j.bin, args...)
	cmd.Dir, cmd.Env = j.dir, append(j.env, "KILL_COUNTER="+j.counter(), "KILL_AT=0")
	var stdout strings.Builder
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	driven := func() {}
	if args[0] == "loop" && args[1] != "status" {
		driven = j.driving(cmd.Process)
	}
	_ = cmd.Wait() // the exit code says it all
	driven()
	return cmd.ProcessState.ExitCode(), stdout.String()
}

// checkLoop judges a loop that was pushed by three witnesses: the facts of its journal, the files of its commits, and the origin. It
// shares no code with the loop.
func (j *job) checkLoop(t *testing.T, plan []string, seen []loopSeen) {
	t.Helper()
	last := seen[len(seen)-1]
	_, journal := j.runLoop(t, "events", last.RunID, "--journal", "--json")
	type iteration struct {
		Number    int    `json:"iteration"`
		Decision  string `json:"decision"`
		Commit    string `json:"commit"`
		Statement string `json:"statement"`
	}
	var all []iteration
	green := map[string]string{} // statements by commit
	for line := range strings.Lines(journal) {
		var e struct {
			Type string `json:"type"`
			Body struct {
				OK        bool   `json:"ok"`
				Green     bool   `json:"green"`
				Commit    string `json:"commit"`
				Statement string `json:"statement"`
				Data      struct {
					Decision string `json:"decision"`
					Memory   struct {
						Recent []iteration `json:"recent"`
					} `json:"memory"`
				} `json:"data"`
			} `json:"body"`
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			continue // a body of another form
		}
		switch n := len(e.Body.Data.Memory.Recent); {
		case e.Type == "Attested" && e.Body.Green:
			green[e.Body.Commit] = e.Body.Statement
		case e.Type == "CallFinished" && e.Body.OK && e.Body.Data.Decision != "" && n > 0:
			all = append(all, e.Body.Data.Memory.Recent[n-1])
		}
	}
	died := slices.ContainsFunc(j.hits, func(h hit) bool { return h.victim == "init" && !h.missed })
	shown := fmt.Sprintf("%+v", all)
	for i, it := range all {
		want := "done"
		if i < len(plan) {
			want = loopSteps[plan[i]]
		}
		switch {
		case it.Number != i+1:
			t.Errorf("iteration %d has the number %d: %s", i+1, it.Number, shown)
		case it.Decision == want || it.Decision == "crashed" && died:
		default:
			t.Errorf("iteration %d was decided as %s, want %s: %s", i+1, it.Decision, want, shown)
		}
		if done := it.Decision == "done"; done != (i == len(all)-1) || done && (it.Statement == "" || green[it.Commit] != it.Statement) {
			t.Errorf("iteration %d is %s without a statement that its commit is green, or not the last one: %s", i+1, it.Decision, shown)
		}
	}
	// The agent of each iteration left one line in the result: none was lost, and none worked twice. Only one whose sprite died may not
	// have come that far.
	for i, it := range all {
		missing := ""
		if it.Decision == "crashed" && died {
			missing = fmt.Sprintf("! git -C origin.git cat-file -e %s:work.%d || ", all[len(all)-1].Commit, i+1)
		}
		j.sh(t, fmt.Sprintf(`%stest "$(git -C origin.git show %s:work.%d)" = x`, missing, all[len(all)-1].Commit, i+1))
	}
	j.judge(t, last.RunID, last.Sprite, "-pushes", "pushes")
	if len(all) == 0 {
		t.Fatal("the journal has no iteration")
	}
	for _, v := range seen {
		if v.Status == "done" && v.Count != len(all) || v.Count > len(all) {
			t.Errorf("status said %+v, and there were %d iterations", v, len(all))
		}
	}
	j.sh(t, fmt.Sprintf(`test "$(wc -l <pushes)" = 1
test "$(git -C origin.git rev-parse lattice/%s)" = %s
git -C origin.git fsck --strict
git clone -q -b lattice/%[1]s origin.git result && git -C result checkout -q origin/main -- tests && cd result && sh tests/check.sh`, last.RunID, all[len(all)-1].Commit))
	if !t.Failed() {
		leftovers(t, j.dir+"/home", "")
	}
}
