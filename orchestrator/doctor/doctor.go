// Package doctor judges whether a machine is fit to run sprites. Start with Run: it works through probes, each of which
// looks at one thing and returns checks, and never lets one of them hang or end the rest. The judges (Disk, Git, Kernel …)
// are pure: they get the findings of a probe, judge them, and name a remedy.
//
// judge.go only judges; the probes, which look at the machine, are in the other files.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/leftover"
)

// Status of a check.
type Status string

const (
	OK   Status = "ok"
	Warn Status = "warn" // works, but not as well as it could
	Fail Status = "fail" // something that lattice needs does not work
)

// Check is the state of one thing. Detail describes the findings. Remedy is the way to correct them, "" when there is
// nothing to do.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy"`
}

// Report is all checks, in the order of the probes.
type Report struct {
	OK        bool                `json:"ok"` // nothing fails
	Checks    []Check             `json:"checks"`
	Leftovers []leftover.Leftover `json:"leftovers,omitempty"` // of the board of the current folder and of the leader
}

// Probe looks at one thing. Name is used when it gives no answer of its own.
type Probe struct {
	Name  string
	Limit time.Duration // for Look; 0 = ten seconds
	Look  func(context.Context) []Check
}

const (
	defaultLimit = 10 * time.Second
	together     = 4 // probes at a time
	grace        = time.Second
)

// Run looks at everything and returns when all probes have answered or run out of time. A probe that does not heed its
// context is left behind: a file system that does not answer cannot be cancelled.
func Run(ctx context.Context, probes []Probe) Report {
	results := make([][]Check, len(probes))
	turns := make(chan struct{}, together)
	var all sync.WaitGroup
	for i, p := range probes {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			results[i] = p.lookWithTimeout(ctx)
		})
	}
	all.Wait()
	r := Report{OK: true, Checks: []Check{}}
	for _, checks := range results {
		for _, c := range checks {
			r.OK = r.OK && c.Status != Fail
			r.Checks = append(r.Checks, c)
		}
	}
	return r
}

// lookWithTimeout is Look with an end.
func (p Probe) lookWithTimeout(ctx context.Context) []Check {
	limit := cmp.Or(p.Limit, defaultLimit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := make(chan []Check, 1)
	go func() { // left behind when it hangs
		defer func() {
			if broken := recover(); broken != nil {
				answer <- []Check{{p.Name, Fail, fmt.Sprintf("the check failed: %v", broken), "report this, with the output of lattice doctor --json"}}
			}
		}()
		answer <- p.Look(ctx)
	}()
	patience := time.NewTimer(limit + grace)
	defer patience.Stop()
	select {
	case checks := <-answer:
		return checks
	case <-patience.C:
		return []Check{{p.Name, Fail, fmt.Sprintf("no answer within %s", limit), "check whether a disk or network share hangs (dmesg, df)"}}
	}
}
