package agent

import (
	"errors"
	"testing"
	"time"

	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/agent/tally"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/skill"
)

func TestPauseUntil(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	limited := func(message string) error { return fault.Failed(codeLimited, "%s", message) }
	for _, tc := range []struct {
		name          string
		err           error
		fail          bool
		pauses, turns int
		resetsAt      float64
		want          time.Duration // 0: no pause
	}{
		{name: "no error"},
		{name: "another error", err: fault.Failed("agent_failed", "try again in 5s")},
		{name: "another kind of error", err: errors.New("try again in 5s")},
		{name: "the words say when", err: limited("try again in 5s"), want: 5 * time.Second},
		{name: "an event says when", err: limited("try again in 5s"), resetsAt: 1_800_007_200, want: 2 * time.Hour},
		{name: "the input wants none", err: limited("try again in 5s"), fail: true},
		{name: "it is over", err: limited("try again in 0s"), want: time.Second},
		{name: "it is over, again and again", err: limited("try again in 0s"), pauses: 5, want: 32 * time.Second},
		{name: "it is over for ever", err: limited("try again in 0s"), pauses: 1000, want: 65536 * time.Second},
		{name: "nothing says when", err: limited("slow down"), want: time.Minute},
		{name: "nothing says when, the third time", err: limited("slow down"), pauses: 2, want: 4 * time.Minute},
		{name: "nothing says when, too often", err: limited("slow down"), pauses: 6},
		{name: "the model answered in between", err: limited("slow down"), pauses: 6, turns: 1, want: time.Minute},
		{name: "in a hundred years", err: limited("try again in 36500 days"), want: time.Minute},
		{name: "an event says in a hundred years", err: limited("x"), resetsAt: 5e9, want: time.Minute},
		{name: "an event says nonsense", err: limited("x"), resetsAt: -1, want: time.Minute},
	} {
		l := &launch{pauses: tc.pauses}
		if tc.fail {
			l.in.UsageLimit = usageLimitFails
		}
		o := outcome{out: &output{tally: &tally.Tally{Turns: tc.turns, ResetsAt: tc.resetsAt}}}
		if at, ok := l.pauseUntil(tc.err, o, now); ok != (tc.want > 0) || ok && at.Sub(now) != tc.want {
			t.Errorf("%s: pauseUntil = %v from now, %v; want %v", tc.name, at.Sub(now), ok, tc.want)
		}
	}
}

// opencode waits by itself for the end of a limit, and only its log tells.
func TestASilentAgentAtALimitPauses(t *testing.T) {
	const log = `timestamp=2026-11-23T16:02:33.153Z level=ERROR run=d537b92e message="stream error" providerID=scripted modelID=one session.id=ses_1 small=false agent=build mode=primary error.error="AI_APICallError: The usage limit has been reached"`
	for _, name := range []string{"opencode", "opencode-acp"} {
		a, err := adapter.Find(name, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		for words, want := range map[string]string{log: codeLimited, "": "timeout"} {
			o := outcome{cause: errIdle, stderr: words, out: &output{tally: &tally.Tally{}}}
			d := &decision{adapter: a, secrets: redact.New(), outcome: o}
			_, err := d.decide()
			failed, ok := errors.AsType[*skill.Error](err)
			if !ok || failed.Code != want {
				t.Fatalf("%s, silent after %q: %v, want %s", name, words, err, want)
			}
			if _, pauses := new(launch).pauseUntil(err, o, time.Now()); pauses != (words == log) {
				t.Errorf("%s, silent after %q: pauses %v", name, words, pauses)
			}
		}
	}
}

// A call has its limits once, however often it pauses.
func TestLimitsAfterAPause(t *testing.T) {
	prior := tally.SoFar{Turns: 3, Usage: tally.Usage{Input: 100}, Cost: tally.Cost{USD: 2}, Duration: 10_000}
	whole := tally.Limits{WallS: 60, MaxTurns: 4, MaxCostUSD: 3, MaxTokens: 150}
	left := whole.After(prior)
	if left.WallS != 50 || left.MaxTurns != 1 || left.MaxCostUSD != 1 {
		t.Errorf("after = %+v", left)
	}
	if left := (tally.Limits{WallS: 5, MaxTurns: 3, MaxCostUSD: 1}).After(prior); left.WallS != 1 || left.MaxTurns != 1 || left.MaxCostUSD <= 0 {
		t.Errorf("used up: %+v", left)
	}
	for want, now := range map[string]*tally.Tally{
		"":             {Turns: 1, Total: &tally.Usage{Input: 50}},
		"max_turns":    {Turns: 2},
		"max_tokens":   {Total: &tally.Usage{Input: 51}},
		"max_cost_usd": {Paid: new(1.5)},
	} {
		if got := whole.FirstPassed(now, tally.Base{}, nil, prior); got != want {
			t.Errorf("firstPassed = %q, want %q", got, want)
		}
	}
}

// TestSeconds checks that a limit of any size is a duration.
func TestSeconds(t *testing.T) {
	t.Parallel()
	for s, want := range map[float64]time.Duration{0: 0, 0.5: 500 * time.Millisecond, 60: time.Minute, 1e10: maxTimeout, 1e300: maxTimeout} {
		if got := seconds(s); got != want {
			t.Errorf("seconds(%g) = %v, want %v", s, got, want)
		}
	}
}
