package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// numbered is a number of things, in words: 1 run, 2 runs.
func numbered(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// bindingLines shows what an approval would bind.
func bindingLines(binding json.RawMessage) []string {
	var b struct {
		Remote  string `json:"remote"`
		Branch  string `json:"branch"`
		Base    string `json:"base"`
		Head    string `json:"head"`
		Commits []struct {
			SHA     string `json:"sha"`
			Subject string `json:"subject"`
		} `json:"commits"`
		Files []struct {
			Path      string `json:"path"`
			Status    string `json:"status"`
			Additions int    `json:"additions"`
			Deletions int    `json:"deletions"`
		} `json:"files"`
		FilesTotal   int      `json:"files_total"`
		CommitsTotal int      `json:"commits_total"`
		Warnings     []string `json:"warnings"`
	}
	if json.Unmarshal(binding, &b) != nil {
		return nil
	}
	lines := []string{fmt.Sprintf("push %.12s to branch %s of %s (base %.12s)", b.Head, clean(b.Branch), clean(b.Remote), b.Base)}
	const most = 20
	for i, c := range b.Commits {
		if i == most {
			lines = append(lines, fmt.Sprintf("… and %d more commits", b.CommitsTotal-most))
			break
		}
		lines = append(lines, fmt.Sprintf("commit %.12s %s", c.SHA, clean(c.Subject)))
	}
	for i, f := range b.Files {
		if i == most {
			lines = append(lines, fmt.Sprintf("… and %d more files", b.FilesTotal-most))
			break
		}
		counts := fmt.Sprintf("+%d -%d", f.Additions, f.Deletions)
		if f.Additions < 0 {
			counts = "binary"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", clean(f.Status), clean(f.Path), counts))
	}
	for _, w := range b.Warnings {
		lines = append(lines, "careful: "+cleanLine(w))
	}
	return lines
}

// eventText is one event on one line.
func eventText(e lattice.Entry) string {
	text := ""
	if ev, _, ok := protocol.Decode(e.Body); ok {
		if payload, err := ev.Open(); err == nil {
			text = payloadText(payload)
		}
	}
	for _, p := range e.Problems {
		text += fmt.Sprintf(" [%s %s]", p.Pointer, p.Message)
	}
	for _, f := range e.Flags {
		text += " (" + f + ")"
	}
	return clean(text)
}

func payloadText(p protocol.Payload) string {
	switch p := p.(type) {
	case protocol.Info:
		if p.Kind != "" {
			return p.Kind + ": " + p.Message
		}
		return p.Message
	case protocol.PhaseStarted:
		return p.Phase
	case protocol.PhaseFinished:
		return fmt.Sprintf("%s success=%t", p.Phase, p.Success)
	case protocol.ActionRequest:
		return fmt.Sprintf("%s %s", p.Action, p.Parameters)
	case protocol.Artifact:
		return fmt.Sprintf("%s %s %s", p.Kind, p.Ref, p.URL)
	case protocol.Waiting:
		return fmt.Sprintf("%s at checkpoint %s", p.Reason, p.CheckpointID)
	case protocol.Completed:
		return p.Status + " " + p.Summary
	case protocol.Error:
		return p.Message
	case protocol.EnvironmentProposal:
		return fmt.Sprintf("%s (%s, confidence %g)", p.SuggestedAdjustment.Type, p.Scope, p.Confidence)
	}
	return ""
}
