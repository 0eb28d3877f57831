package api

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Product is an artifact as the registry of artifacts has it. All of it comes from a sprite, apart from the run, its intent
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
}

// productKinds are the declared kinds that have another name in the registry.
var productKinds = map[string]string{"pr_url": "pull_request", "issue_url": "issue", "commit_sha": "commit", "pr": "pull_request"}

var numberAtEnd = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/(\d{1,12})(?:/[a-z]+)?$`) })

// NewProduct returns a declared artifact as the registry has it. A URL that is not one of a web page is left out.
func NewProduct(a protocol.Artifact) Product {
	p := Product{Kind: cmp.Or(productKinds[a.Kind], a.Kind), Ref: a.Ref, URL: a.URL}
	if path := strings.TrimPrefix(a.URL, "file://"); strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && checkProductText(path) == "" {
		p.URL, p.Path = "", path
		return p
	}
	if p.Problem = checkProductURL(a.URL); p.Problem != "" {
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

// checkProductURL says what is wrong with a URL that a sprite declared, "" if nothing is.
func checkProductURL(text string) string {
	if text == "" {
		return ""
	}
	if problem := checkProductText(text); problem != "" {
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

// checkProductText says what is wrong with the characters of a URL or path, "" if nothing is.
func checkProductText(text string) string {
	switch {
	case len(text) > 2048:
		return "the URL is longer than 2048 bytes"
	case !utf8.ValidString(text), strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }):
		return "the URL cannot be read"
	}
	return ""
}

// ProductQuery selects from the registry of artifacts.
type ProductQuery struct {
	Kind, Run, Intent, Repo string
	Limit                   int // 0 is 100
}

func productsRoute(s Artifacts) Route {
	return get("/artifacts", "List artifacts of all runs, the newest first.", func(r *http.Request) ([]Product, error) {
		limit, err := limitOf(r)
		if err != nil {
			return nil, err
		}
		return s.Products(r.Context(), ProductQuery{Kind: r.FormValue("kind"), Run: r.FormValue("run"), Intent: r.FormValue("intent"), Repo: r.FormValue("repo"), Limit: limit})
	}, Param{"kind", "string", "branch, commit, file, pull_request, issue, or as declared"}, Param{"run", "string", "only those of a run"},
		Param{"intent", "string", "only those of an intent"}, Param{"repo", "string", "only those of runs on a repository"}, Param{"limit", "integer", "at most so many; by default 100"})
}

// limitOf returns the parameter limit of a request, 0 if there is none.
func limitOf(r *http.Request) (int, error) {
	limit, err := strconv.Atoi(cmp.Or(r.FormValue("limit"), "0"))
	if err != nil || limit < 0 {
		return 0, fault.BadInput("bad_request", "the limit of a list is a number, not %q", r.FormValue("limit"))
	}
	return limit, nil
}

// Products lists artifacts of all runs, the newest first.
func (c RunCalls) Products(ctx context.Context, q ProductQuery) ([]Product, error) {
	return call[[]Product](ctx, c.connection, "GET", Root+"/artifacts", url.Values{"kind": {q.Kind}, "run": {q.Run}, "intent": {q.Intent}, "repo": {q.Repo}, "limit": {strconv.Itoa(q.Limit)}}, nil)
}
