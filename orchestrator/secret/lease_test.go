package secret

import (
	"testing"
	"time"
)

func TestLease(t *testing.T) {
	now := time.Now()
	terms := &Terms{Run: "r", Sprite: "s", Variable: "V", Skills: []string{"exec.run"}, Expires: now.Add(time.Minute), Uses: 2}
	leased := Fact{Kind: Leased, Name: "n", Lease: "l", Terms: terms}
	used := func(call string) Fact { return Fact{Kind: Used, Name: "n", Lease: "l", Call: call} }
	for name, tt := range map[string]struct {
		facts               []Fact
		at                  time.Time
		call, skill, sprite string
		want                string
	}{
		"holds":                  {facts: []Fact{leased}},
		"another lease's end":    {facts: []Fact{leased, {Kind: Revoked, Name: "n", Lease: "m"}}},
		"one use is left":        {facts: []Fact{leased, used("c1"), used("c1")}},
		"uses are spent":         {facts: []Fact{leased, used("c1"), used("c2")}, want: "it is used up"},
		"the same call again":    {facts: []Fact{leased, used("c1"), used("c0")}},
		"expired":                {facts: []Fact{leased}, at: now.Add(time.Minute), want: "it is expired"},
		"expired, same call":     {facts: []Fact{leased, used("c0")}, at: now.Add(time.Hour), want: "it is expired"},
		"revoked":                {facts: []Fact{leased, {Kind: Revoked, Name: "n", Lease: "l", Reason: "the run waits"}}, want: "it is revoked: the run waits"},
		"the first end counts":   {facts: []Fact{leased, {Kind: Revoked, Lease: "l", Reason: "a"}, {Kind: Revoked, Lease: "l", Reason: "b"}, leased}, want: "it is revoked: a"},
		"another sprite":         {facts: []Fact{leased}, sprite: "fork", want: "it is for the sprite s"},
		"another skill":          {facts: []Fact{leased}, skill: "agent.run", want: `it is for ["exec.run"]`},
		"told of, never granted": {facts: []Fact{leased, {Kind: Withheld, Lease: "l", Call: "c9"}, {Kind: Tested, Name: "n"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var leases []Lease
			for _, f := range tt.facts {
				leases = Apply(leases, now, f)
			}
			if len(leases) != 1 {
				t.Fatalf("%d leases", len(leases))
			}
			or := func(s, def string) string {
				if s == "" {
					return def
				}
				return s
			}
			at := tt.at
			if at.IsZero() {
				at = now
			}
			if got := leases[0].Refuse(at, or(tt.call, "c0"), or(tt.skill, "exec.run"), or(tt.sprite, "s")); got != tt.want {
				t.Errorf("Refuse = %q, want %q", got, tt.want)
			}
		})
	}
}
