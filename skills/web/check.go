package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/skills/web/proof"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/text"
)

const (
	maxClaims = 100
	maxSteps  = 30
	maxLine   = 1000 // bytes of a claim, a quotation or a step in the report
)

type checkInput struct {
	Pages  []storedPage  `json:"pages"`
	Failed []failure     `json:"failed"`
	Claims []proof.Claim `json:"claims"`
	Plan   []proof.Step  `json:"plan"`
	Open   []string      `json:"open"`
}

// source is a page that a proved claim names.
type source struct {
	Number int    `json:"number"`
	URL    string `json:"url"`
	Title  string `json:"title"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

type checkOutput struct {
	Claims  []proof.Claim   `json:"claims"`
	Removed []proof.Removed `json:"removed"`
	Plan    []proof.Step    `json:"plan"`
	Sources []source        `json:"sources"`
	Report  string          `json:"report"`
}

// check is web.check. It reads the stored pages again, and takes none that has another digest than when it was fetched.
func check(_ context.Context, c *skill.Call, in checkInput) (*checkOutput, error) {
	switch {
	case len(in.Pages) > maxPages:
		return nil, skill.BadInput("/pages", "has %d entries, at most %d are allowed", len(in.Pages), maxPages)
	case len(in.Claims) > maxClaims:
		return nil, skill.BadInput("/claims", "has %d entries, at most %d are allowed", len(in.Claims), maxClaims)
	case len(in.Plan) > maxSteps || len(in.Open) > maxSteps:
		return nil, skill.BadInput("/plan", "and open have at most %d entries each", maxSteps)
	}
	texts := make([]string, len(in.Pages))
	out := checkOutput{Sources: []source{}}
	for i, p := range in.Pages {
		if p.Number != i+1 {
			return nil, skill.BadInput(fmt.Sprintf("/pages/%d/number", i), "is %d, not %d", p.Number, i+1)
		}
		raw, err := c.Root.ReadFile(p.Path, maxStored)
		sum := sha256.Sum256(raw)
		if err != nil || hex.EncodeToString(sum[:]) != p.SHA256 {
			reason := errors.Join(errors.New("the stored page is not the one that was fetched"), err)
			in.Failed = append(in.Failed, failure{p.URL, reason.Error()})
			continue
		}
		texts[i] = string(raw)
		out.Sources = append(out.Sources, source{p.Number, p.URL, p.Title, p.Path, p.SHA256})
	}
	var kept []int
	out.Claims, kept, out.Removed = proof.Check(in.Claims, texts)
	var dropped []proof.Step
	out.Plan, dropped = proof.Rest(in.Plan, kept)
	out.Report = formatReport(out, dropped, in.Failed, in.Open)
	return &out, nil
}

// formatReport returns the proved claims with their sources, and all that was left out, as text for people. Each entry is one
// line, so that no claim and no page can write a heading.
func formatReport(out checkOutput, dropped []proof.Step, failed []failure, open []string) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		for i, arg := range args {
			if s, ok := arg.(string); ok {
				args[i] = text.Head(text.Line(s), maxLine)
			}
		}
		fmt.Fprintf(&b, format+"\n", args...)
	}
	if len(out.Claims) == 0 {
		line("No claim is proved by a source.")
	}
	for i, c := range out.Claims {
		line("%d. %s", i+1, c.Claim)
		line("   \"%s\" [%d]", c.Quote, c.Source)
	}
	list := func(heading string, n int) {
		if n > 0 {
			line("\n%s:", heading)
		}
	}
	list("Sources", len(out.Sources))
	for _, s := range out.Sources {
		line("[%d] %s %s (sha256 %.12s)", s.Number, s.URL, s.Title, s.SHA256)
	}
	list("Next steps, and the claims that they rest on", len(out.Plan))
	for i, s := range out.Plan {
		line("%d. %s (%s)", i+1, s.Step, strings.Trim(fmt.Sprint(s.Claims), "[]"))
	}
	list("Not answered", len(open))
	for _, question := range open {
		line("- %s", question)
	}
	list("Removed, because no source proves it", len(out.Removed)+len(dropped))
	for _, r := range out.Removed {
		line("- %s: %s", r.Claim.Claim, r.Reason)
	}
	for _, s := range dropped {
		line("- the step %s: it rests on a claim that was removed, or on none", s.Step)
	}
	list("Not read", len(failed))
	for _, f := range failed {
		line("- %s: %s", f.URL, f.Reason)
	}
	return b.String()
}
