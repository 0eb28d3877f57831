package main

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"testing"
)

const threeLines = `{"execir_version":"1.0","id":"lines","entry_node":"one","nodes":[
	{"id":"one","op":"TOOL_CALL","tool":"fs.write","args":{"path":"lines","content":"one\n"}},
	{"id":"two","op":"TOOL_CALL","tool":"fs.append","args":{"path":"lines","content":"two\n"}},
	{"id":"read","op":"TOOL_CALL","tool":"fs.read","args":{"path":"lines"},"outputs":{"content":"$vars.text"}}],
	"edges":[{"from":"one","to":"two"},{"from":"two","to":"read"}]}`

// TestKillWhileTravelling kills the leader after each durable write of a rewind, and of a fork. What was cut off is gone
// on with, or asked for again; either way every run ends as the undisturbed one did, and replays.
func TestKillWhileTravelling(t *testing.T) {
	for name, trip := range map[string][]string{"rewind": {"rewind", "--to", "two"}, "fork": {"fork", "--at", "two", "-n", "2"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			if err := os.WriteFile(j.dir+"/lines.json", []byte(threeLines), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, out := j.lattice(t, 0, "", "run", "lines.json", "--keep"); code != 0 {
				t.Fatal(out)
			}
			first := j.runs(t)[0].ID
			trip := slices.Insert(slices.Clone(trip), 1, first)
			start, stride := kills()
			for k := start; !t.Failed(); k += stride {
				_ = os.Remove(j.counter())
				code, out := j.lattice(t, k, "leader", trip...)
				for _, r := range j.runs(t) {
					if r.Status != "succeeded" && k/stride%2 == 0 {
						j.lattice(t, 0, "", "resume", r.ID)
					}
				}
				if code == -1 {
					j.lattice(t, 0, "", trip...)
				} else if code != 0 {
					t.Error(out)
				}
				for _, r := range j.runs(t) {
					if r.Status != "succeeded" {
						j.lattice(t, 0, "", "resume", r.ID)
					}
				}
				j.ended(t, "one\ntwo\n")
				if t.Failed() {
					t.Fatalf("killed after durable write %d of lattice %v", k, trip)
				}
				if code == 0 {
					t.Logf("%d places to kill", k-1)
					j.remove()
					return
				}
			}
		})
	}
}

// TestKillBehindAPush kills the leader while a run that has pushed goes back behind that and pushes again. Whatever was cut
// off, each time one new branch comes to the origin, and none that is there ever moves.
func TestKillBehindAPush(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	j.run(t, 0, "")
	first := j.runs(t)[0].ID
	again := []string{"rewind", first, "--to", "clone", "--across-effects"}
	start, stride := kills()
	for k, times := start, 2; !t.Failed(); k, times = k+4*stride, times+1 { // a going back takes as many writes as a whole job: some will do
		_ = os.Remove(j.counter())
		code, out := j.lattice(t, k, "leader", again...)
		if code == -1 {
			if code, out = j.lattice(t, 0, "", "resume", first); code == 0 { // cut off before it was recorded
				code, out = j.lattice(t, 0, "", again...)
			}
		}
		unharmed := j.writes() < k
		if code != 75 {
			t.Fatalf("killed after durable write %d: exit %d\n%s", k, code, out)
		}
		j.lattice(t, 0, "", "approve", first)
		j.lattice(t, 0, "", "replay", first)
		j.sh(t, `test "$(git -C origin.git for-each-ref 'refs/heads/lattice/*' | wc -l)" = `+strconv.Itoa(times)+`
			test "$(wc -l <pushes)" = `+strconv.Itoa(times)+`
			! grep -v '^0000000000' pushes`)
		j.judgeAll(t, "-pushes", "pushes", "-want-pushes", strconv.Itoa(times))
		if unharmed {
			t.Logf("%d times back", times-1)
			j.remove()
			return
		}
	}
}

type listed struct {
	ID      string `json:"run_id"`
	Status  string `json:"status"`
	Sprite  string `json:"sprite"`
	Outputs struct {
		Text string `json:"text"`
	} `json:"outputs"`
}

func (j *job) runs(t *testing.T) []listed {
	t.Helper()
	_, list := j.lattice(t, 0, "", "runs", "--json")
	var runs []listed
	if err := json.Unmarshal([]byte(list), &runs); err != nil || len(runs) == 0 {
		t.Fatalf("runs: %v: %s", err, list)
	}
	return runs
}

// ended checks every run of the job that has a sprite of the newest ones.
func (j *job) ended(t *testing.T, text string) {
	t.Helper()
	for i, r := range j.runs(t) {
		if r.Status != "succeeded" || r.Outputs.Text != text {
			t.Errorf("run %s is %s with %q", r.ID, r.Status, r.Outputs.Text)
		}
		if i < 3 { // older ones were looked at before
			j.lattice(t, 0, "", "replay", r.ID)
			j.judge(t, r.ID, r.Sprite)
		}
	}
}
