package test

import (
	"fmt"
	"strings"

	"github.com/spritekit/lattice/skills/proc"
)

// plain judges a command by its exit code alone.
type plain struct {
	shown []string
	seen  int
}

func (p *plain) line(string) { p.seen++ }

func (p *plain) progress() string { return fmt.Sprintf("%d lines of output", p.seen) }

func (p *plain) fill(r *Report, exit proc.Exit, tail []byte) {
	r.Counts = Counts{Total: 1}
	if exit.Code == 0 {
		r.Status, r.Counts.Passed = StatusPassed, 1
		return
	}
	r.Status, r.Counts.Failed = StatusFailed, 1
	f := Failure{
		ID: "command", Name: strings.Join(p.shown, " "), Kind: kindAssertion, Message: fmt.Sprintf("exit code %d", exit.Code),
		Excerpt: excerpt(strings.Split(strings.TrimSpace(string(tail)), "\n")), Rerun: Rerun{Command: p.shown},
	}
	switch {
	case exit.Signal != 0:
		r.Status, r.Counts = StatusError, Counts{Total: 1, Errored: 1}
		f.Kind, f.Message = kindSetup, "ended by signal: "+exit.Signal.String()
	case exit.Code == 126 || exit.Code == 127: // the shell's word for "could not run it"
		r.Status, r.Counts = StatusError, Counts{Total: 1, Errored: 1}
		f.Kind = kindSetup
	}
	f.Name = clip(f.Name, maxMessage)
	r.Failures = append(r.Failures, f)
}
