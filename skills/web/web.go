// Package web holds the skills that read pages of the web: web.fetch stores the text of pages in the workspace, and web.check removes
// the claims about them that no quotation proves (package proof). The pages that may be read are named by the caller: a
// page cannot add another one. spritekit-extra fetches (package page), because HTTP, TLS and HTML are large.
package web

import (
	"github.com/spritekit/lattice/skills/extra"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Command is the command of spritekit-extra that reads a Request from stdin and writes a Page to stdout.
const Command = "fetch-page"

// Request asks for one page.
type Request struct {
	URL      string `json:"url"`
	MaxBytes int64  `json:"max_bytes"` // of the answer
	// Env is the environment of the call; its variables for proxies and certificates count.
	Env []string `json:"env"`
}

// Page is the text of a page, or the problem with it.
type Page struct {
	Problem  string `json:"problem,omitempty"`
	FinalURL string `json:"final_url"` // after redirects
	Title    string `json:"title"`
	Text     string `json:"text"`
	SHA256   string `json:"body_sha256"` // of the answer's body
}

// Skills lists the family.
func Skills(second extra.File) []skill.Skill {
	return []skill.Skill{
		{Name: "web.check", Run: skill.Typed(check)},
		{Name: "web.fetch", Run: skill.Typed(fetcher{second}.fetchPages)},
	}
}
