package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	soak     = flag.Duration("soak", 0, "kill at random moments for this long")
	soakSeed = flag.Uint64("soak-seed", 0, "seed of the random moments; 0 takes a new one")
	soakPlan = flag.String("soak-plan", "", "make these kills only, again and again, as a failure printed them: `leader:1:312ms,init:2:20ms`")
)

// TestKillAnytime runs the main job with kills at random moments, between writes as well as in them, of the leader and of
// the sprite's init, one to three a job, as often as -soak allows. The moments differ from run to run; what must come
// out does not. In the end it prints where the kills hit, and a failure prints how to make the same kills again.
func TestKillAnytime(t *testing.T) {
	t.Parallel()
	const always = 5
	seed := cmp.Or(*soakSeed, uint64(time.Now().UnixNano()))
	again, err := parsePlan(*soakPlan)
	if err != nil {
		t.Fatal(err)
	}
	typical := rehearse(t)
	var hits histogram
	start, jobs := time.Now(), 0
	defer func() { t.Logf("%d jobs in %v, seed %d\n%v", jobs, time.Since(start).Round(time.Second), seed, hits) }()
	for ; jobs < always || time.Since(start) < *soak; jobs++ {
		kills := again
		if kills == nil {
			kills = randomPlan(rand.New(rand.NewPCG(seed, uint64(jobs))), typical)
		}
		killed(t, kills, &hits)
		if t.Failed() {
			return
		}
	}
}

// killed runs one job and makes these kills.
func killed(t *testing.T, kills plan, hits *histogram) {
	job := newJob(t)
	job.kills = kills
	defer func() {
		hits.add(job.hits)
		if t.Failed() {
			t.Logf("killed the %v; what is left of the job lies in %s\nto make these kills again, which may hit elsewhere:\n"+
				"\tgo test ./orchestrator -run TestKillAnytime -soak 5m -soak-plan %s", job.hits, job.keep(), kills)
			return
		}
		job.remove()
	}()
	job.run(t, 0, "")
	job.check(t)
	leftovers(t, filepath.Join(job.dir, "home"), "")
}

// rehearse runs the job unharmed and says how long the commands take that drive it.
func rehearse(t *testing.T) []time.Duration {
	job := newJob(t)
	defer job.remove()
	job.run(t, 0, "")
	job.check(t)
	if t.Failed() || len(job.drove) == 0 {
		t.Fatal("the job fails without a kill")
	}
	return job.drove
}

// plan is the kills of one job.
type plan []kill

// kill is a kill -9 of the leader, or of every sandbox's init that is there then or comes next, some time after the start
// of the n-th command that drives the run, from 1.
type kill struct {
	victim  string // leader | init
	command int
	after   time.Duration
}

// randomPlan spreads one to three kills over the commands of a job, each over the time that its command typically takes.
func randomPlan(r *rand.Rand, typical []time.Duration) plan {
	var p plan
	for command, n := 1, 1+r.IntN(3); len(p) < n; command++ {
		if command < len(typical) && r.IntN(3) == 0 {
			continue // let this one pass
		}
		span := typical[min(command, len(typical))-1]
		victim := [...]string{"leader", "init"}[r.IntN(2)]
		p = append(p, kill{victim, command, time.Duration(r.Int64N(int64(span + span/8))).Round(time.Millisecond)})
	}
	return p
}

func (p plan) String() string {
	var all []string
	for _, k := range p {
		all = append(all, fmt.Sprintf("%s:%d:%v", k.victim, k.command, k.after))
	}
	return strings.Join(all, ",")
}

func parsePlan(s string) (plan, error) {
	var p plan
	for one := range strings.SplitSeq(s, ",") {
		if s == "" {
			break
		}
		parts := strings.Split(one, ":")
		if len(parts) != 3 || parts[0] != "leader" && parts[0] != "init" {
			return nil, fmt.Errorf("-soak-plan: %q is not leader:N:TIME or init:N:TIME", one)
		}
		command, err := strconv.Atoi(parts[1])
		after, err2 := time.ParseDuration(parts[2])
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("-soak-plan: %q: %w", one, err)
		}
		p = append(p, kill{parts[0], command, after})
	}
	return p, nil
}

func TestPlansSurviveBeingPrinted(t *testing.T) {
	typical := []time.Duration{time.Second, time.Second / 2}
	for n := range uint64(100) {
		p := randomPlan(rand.New(rand.NewPCG(1, n)), typical)
		got, err := parsePlan(p.String())
		if err != nil || !slices.Equal(got, p) || len(p) == 0 {
			t.Fatalf("%v reads as %v, %v", p, got, err)
		}
	}
	for _, s := range []string{"x", "leader:1", "host:1:1s", "leader:one:1s", "init:1:soon", ","} {
		if p, err := parsePlan(s); err == nil {
			t.Errorf("parsePlan(%q) = %v, want an error", s, p)
		}
	}
}

// hit is what a kill met.
type hit struct {
	victim string
	writes int // durable writes that the job had made
	missed bool
}

func (h hit) String() string {
	if h.missed {
		return h.victim + " (none there) after write " + strconv.Itoa(h.writes)
	}
	return h.victim + " after write " + strconv.Itoa(h.writes)
}

// driving notes that a command drives the run, and kills as planned while it does. The func that it returns ends that.
func (j *job) driving(p *os.Process) (ended func()) {
	began, over := time.Now(), make(chan struct{})
	var strikes sync.WaitGroup
	var mu sync.Mutex // guards j.hits
	for _, k := range j.kills {
		if k.command != len(j.drove)+1 {
			continue
		}
		strikes.Go(func() {
			select {
			case <-over:
				return // the command was faster
			case <-time.After(k.after):
			}
			met := strike(k.victim, p, over)
			h := hit{victim: k.victim, writes: j.writes(), missed: !met}
			mu.Lock()
			defer mu.Unlock()
			j.hits = append(j.hits, h)
		})
	}
	return func() {
		close(over)
		strikes.Wait()
		j.drove = append(j.drove, time.Since(began))
	}
}

// strike kills, and says whether there was somebody to kill. Sandboxes come and go: it waits for the next one.
func strike(victim string, leader *os.Process, over <-chan struct{}) bool {
	if victim == "leader" {
		return leader.Kill() == nil
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for killInits(leader.Pid) == 0 {
		select {
		case <-over:
			return false
		case <-tick.C:
		}
	}
	return true
}

// keep moves a job's folder to where it stays after the tests, and returns that.
func (j *job) keep() string {
	kept, err := os.MkdirTemp("", "lattice-soak-")
	if err == nil {
		kept = filepath.Join(kept, "job")
		err = os.Rename(j.dir, kept)
	}
	if err != nil {
		return "no folder that could be kept: " + err.Error()
	}
	return kept
}

// histogram counts hits by the durable write after which they came.
type histogram struct{ byWrite map[int]map[string]int }

func (h *histogram) add(hits []hit) {
	if h.byWrite == nil {
		h.byWrite = map[int]map[string]int{}
	}
	for _, hit := range hits {
		at := h.byWrite[hit.writes]
		if at == nil {
			at = map[string]int{}
			h.byWrite[hit.writes] = at
		}
		if hit.missed {
			at["missed"]++
		} else {
			at[hit.victim]++
		}
	}
}

// String draws a line for each durable write: L for a kill of the leader after it, i for one of the sprite's init, and .
// for one that found nobody to kill.
func (h histogram) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "write  leader  init  none  (L leader, i init, . nobody there to kill)\n")
	for _, write := range slices.Sorted(maps.Keys(h.byWrite)) {
		at := h.byWrite[write]
		fmt.Fprintf(&b, "%5d  %6d  %4d  %4d  %s%s%s\n", write, at["leader"], at["init"], at["missed"],
			bar("L", at["leader"]), bar("i", at["init"]), bar(".", at["missed"]))
	}
	return b.String()
}

func bar(sign string, n int) string { return strings.Repeat(sign, min(n, 40)) }
