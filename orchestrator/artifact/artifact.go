// Package artifact turns the artifacts that sprites declare into the form in which the registry of artifacts lists them. Start
// with [New]. A declaration is hostile input: a URL that no browser should open is left out, and the product says why.
package artifact

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spritekit/lattice/orchestrator/artifact/report"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Product is an artifact in the registry of artifacts. All of it comes from a sprite, apart from the run, its intent
// and its repository.
type Product struct {
	RunID    string      `json:"run_id"`
	IntentID string      `json:"intent_id,omitempty"`
	Repo     string      `json:"repo,omitempty"` // of the run
	Sprite   string      `json:"sprite,omitempty"`
	At       time.Time   `json:"at"`
	Seq      lattice.Seq `json:"seq"`  // of the event in the journal
	Kind     string      `json:"kind"` // branch, commit, file, pull_request, issue, or as declared
	Ref      string      `json:"ref,omitempty"`
	URL      string      `json:"url,omitempty"`
	Path     string      `json:"path,omitempty"`   // of a repository of this machine that was declared instead of a URL
	Number   int64       `json:"number,omitempty"` // of a pull request or an issue
	// Problem says why a declared URL was left out.
	Problem string `json:"problem,omitempty"`
	// Report is the summary of a file that is a report of tests or of an analyser, when a copy of it was kept.
	Report *report.Report `json:"report,omitempty"`
}

// Name returns RUN@SEQ, which no other artifact has.
func (p Product) Name() string { return fmt.Sprintf("%s@%d", p.RunID, p.Seq) }

// kinds are the declared kinds that have another name in the registry.
var kinds = map[string]string{"pr_url": "pull_request", "issue_url": "issue", "commit_sha": "commit", "pr": "pull_request"}

var numberAtEnd = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/(\d{1,12})(?:/[a-z]+)?$`) })

// New returns the registry's form of a declared artifact. A URL that is not one of a web page is left out.
func New(a protocol.Artifact) Product {
	p := Product{Kind: cmp.Or(kinds[a.Kind], a.Kind), Ref: a.Ref, URL: a.URL}
	if path := strings.TrimPrefix(a.URL, "file://"); strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && checkText(path) == "" {
		p.URL, p.Path = "", path
		return p
	}
	if p.Problem = checkURL(a.URL); p.Problem != "" {
		p.URL = ""
	}
	if p.Kind != "pull_request" && p.Kind != "issue" {
		return p
	}
	if u, err := url.Parse(p.URL); err == nil {
		if m := numberAtEnd().FindStringSubmatch(strings.TrimSuffix(u.Path, "/")); m != nil {
			p.Number, _ = strconv.ParseInt(m[1], 10, 64) // twelve digits fit
		}
	}
	return p
}

// checkURL returns the fault of a URL that a sprite declared, "" if nothing is.
func checkURL(text string) string {
	if text == "" {
		return ""
	}
	if problem := checkText(text); problem != "" {
		return problem
	}
	u, err := url.Parse(text)
	switch {
	case err != nil, strings.ContainsFunc(text, unicode.IsSpace):
		return "the URL cannot be read"
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return "the URL is not one of http or https"
	case u.User != nil:
		return "the URL has a user"
	}
	return ""
}

// checkText returns the fault in the characters of a URL or path, "" if nothing is.
func checkText(text string) string {
	switch {
	case len(text) > 2048:
		return "the URL is longer than 2048 bytes"
	case !utf8.ValidString(text), strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }):
		return "the URL cannot be read"
	}
	return ""
}
