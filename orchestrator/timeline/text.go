package timeline

import (
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// DescribeBinding returns the content that an approval would be bound to, in lines.
func DescribeBinding(binding json.RawMessage) []string {
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
		Place        *struct {
			Forge string `json:"forge"`
			Path  struct {
				Owner string `json:"owner"`
				Name  string `json:"name"`
			} `json:"path"`
		} `json:"place"`
		Digest    string            `json:"diff_digest"`
		Statement string            `json:"statement"`
		Also      []json.RawMessage `json:"also"`
	}
	if json.Unmarshal(binding, &b) != nil {
		return nil
	}
	var lines []string
	if b.Place != nil {
		lines = append(lines, cli.Clean(fmt.Sprintf("at %s/%s of the code host %s", b.Place.Path.Owner, b.Place.Path.Name, b.Place.Forge)))
	}
	if b.Head != "" {
		lines = append(lines, fmt.Sprintf("push %.12s to branch %s of %s (base %.12s)", b.Head, cli.Clean(b.Branch), cli.Clean(b.Remote), b.Base))
	}
	if b.Statement != "" {
		lines = append(lines, fmt.Sprintf("push the signed statement %.12s about it as a git note", cli.Clean(b.Statement)))
	}
	const most = 20
	for i, c := range b.Commits {
		if i == most {
			lines = append(lines, fmt.Sprintf("… and %d more commits", b.CommitsTotal-most))
			break
		}
		lines = append(lines, fmt.Sprintf("commit %.12s %s", c.SHA, cli.Clean(c.Subject)))
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
		lines = append(lines, fmt.Sprintf("%s %s %s", cli.Clean(f.Status), cli.Clean(f.Path), counts))
	}
	for _, w := range b.Warnings {
		lines = append(lines, "careful: "+cli.CleanLine(w))
	}
	if len(b.Also) == 0 {
		return lines
	}
	whole := []string{fmt.Sprintf("in %d repositories, one after the other:", 1+len(b.Also)), fmt.Sprintf("1. with the digest %.12s", cli.Clean(b.Digest))}
	whole = append(whole, lines...)
	for i, part := range b.Also {
		var of struct {
			Digest string `json:"diff_digest"`
		}
		if json.Unmarshal(part, &of) != nil {
			continue
		}
		whole = append(whole, fmt.Sprintf("%d. with the digest %.12s", i+2, cli.Clean(of.Digest)))
		whole = append(whole, DescribeBinding(part)...)
	}
	return whole
}

// DescribeEvent is one event on one line.
func DescribeEvent(e lattice.Entry) string {
	text := ""
	if ev, _, ok := protocol.Decode(e.Body); ok {
		if payload, err := ev.Open(); err == nil {
			text = DescribePayload(payload)
		}
	}
	for _, p := range e.Problems {
		text += fmt.Sprintf(" [%s %s]", p.Pointer, p.Message)
	}
	for _, f := range e.Flags {
		text += " (" + f + ")"
	}
	return cli.Clean(text)
}

func DescribePayload(p protocol.Payload) string {
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

// DescribeStatus returns a run's status, and whether it was interrupted.
func DescribeStatus(v api.RunView) string {
	if !v.Driving && (v.Status == lattice.Running || v.Status == lattice.Pending) {
		return string(v.Status) + " (interrupted; lattice resume)"
	}
	return string(v.Status)
}
