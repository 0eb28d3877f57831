package loop

import (
	"fmt"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/loop"
)

// View describes a loop for people and programs.
type View struct {
	RunID   string            `json:"run_id"`
	Name    string            `json:"name"`
	Status  Outcome           `json:"status"`
	Exit    int               `json:"exit_code"`
	Reason  string            `json:"reason,omitempty"`
	Run     lattice.RunStatus `json:"run_status"`
	Repo    string            `json:"repo,omitempty"`
	Sprite  string            `json:"sprite,omitempty"`
	Started time.Time         `json:"started_at"`
	Progress
	Count     int      `json:"iteration_count"`
	Completed int      `json:"tasks_completed"`
	CostUSD   float64  `json:"cost_usd"`
	DurationS float64  `json:"duration_s"` // of the iterations, without waits for people
	Next      []string `json:"next,omitempty"`
}

// Standing is the part of a loop's state that its run tells.
type Standing struct {
	Driving bool
	Waits   []lattice.Wait
	Failed  string // the node at which the run failed
	Message string // of the failure
	Note    string // why it is not driven
}

// Describe returns v with the state that a folded journal and the run tell. Name, Run and the members about the run are given.
func (v View) Describe(f *Folder, s Standing) (View, error) {
	var err error
	if v.Progress, err = f.Progress(); err != nil {
		return v, err
	}
	v.Status, v.Reason = v.Judge(v.Run, s.Driving, s.Waits, s.Failed)
	if v.Reason == "" {
		v.Reason = s.Message
	}
	if v.Reason == "" && v.Status == Interrupted {
		v.Reason = s.Note
	}
	return v.Complete(), nil
}

// Complete fills in the members that follow from the others.
func (v View) Complete() View {
	v.Exit = v.Status.ExitCode()
	v.Count, v.CostUSD, v.DurationS = v.Memory.Iterations, v.Memory.CostUSD, float64(v.Memory.DurationMS)/1000
	v.Completed = len(v.Tasks) - loop.Incomplete(v.Tasks)
	v.Next = v.nextCommands()
	return v
}

// nextCommands returns the commands with which a person goes on.
func (v View) nextCommands() []string {
	cmd := func(format string, args ...any) string { return "lattice loop " + fmt.Sprintf(format, args...) }
	name := v.Name
	switch d := loop.Decision(v.Status); {
	case v.Run == lattice.Succeeded || v.Run == lattice.Canceled:
		return nil
	case v.Status == Running:
		return []string{cmd("tail %s", name), cmd("stop %s", name)}
	case v.Status == Interrupted:
		return []string{cmd("resume %s", name)}
	case v.Run == lattice.Failed:
		return []string{"lattice show " + v.RunID, cmd("rewind %s", name)}
	case d == loop.DecideDone:
		return []string{"lattice show -p " + v.RunID, cmd("done %s", name)}
	case d == loop.DecideAsk:
		return []string{cmd("resume %s --answer TEXT", name)}
	case d == loop.DecideMaxIterations:
		return []string{cmd("resume %s --max-iterations N", name)}
	case d == loop.DecideMaxCost:
		return []string{cmd("resume %s --max-cost USD", name)}
	case d == loop.DecideMaxDuration:
		return []string{cmd("resume %s --max-duration TIME", name)}
	}
	return []string{cmd("attach %s", name), cmd("resume %s", name), cmd("abandon %s", name)}
}
