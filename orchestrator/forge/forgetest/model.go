// Package forgetest is a code host for tests: a server that holds its state in memory and speaks the parts of the REST
// interfaces of GitHub or Gitea that lattice uses, and serves repositories through git's own http-backend. Start with New.
//
//	model   users, repositories and issues, and the acts of people
//	server  the requests: credentials, faults, ETags
//	routes  the REST interface; pulls has the requests about pull requests, answers the JSON of all of them
//	git     clones and pushes; GitHub's reviews move with a force-push
//	app     a GitHub App, which mints its tokens
//	hooks   deliveries of webhooks, which the test sends, repeats, drops or reorders itself
//
// The server is as strict as the real one: it refuses unknown members, missing headers and calls without permission.
// Nothing in it depends on the time of day: its clock advances by a second with each change.
package forgetest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// Server is a code host.
type Server struct {
	*httptest.Server
	kind forge.Kind

	mu         sync.Mutex // held while a request is answered, and never while an answer is held back
	clock      time.Time
	lastID     int64
	users      []*user
	repos      []*repo
	faults     []*fault
	deliveries []Delivery
	requests   int
	unchanged  int
	app        *app // nil: there is none
}

type user struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Type  string `json:"type"`
	token string
}

type repo struct {
	id      int64
	owner   *user
	name    string
	dir     string // of the bare repository
	private bool
	roles   map[int64]forge.Role
	labels  []label
	items   []*item // issues and pull requests; the number is the position
	hooks   []hook
	checks  []check
}

type label struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

// item is an issue or a pull request.
type item struct {
	id               int64
	number           int
	title, body      string
	author           *user
	open             bool
	labels           []string
	comments         []*comment
	created, updated time.Time
	pull             *pull
}

type pull struct {
	head, base     string
	headSHA        string
	draft          bool
	fork           bool // it comes from another repository
	reviews        []*review
	reviewComments []*reviewComment
}

type comment struct {
	id               int64
	author           *user
	body             string
	created, updated time.Time
	reactions        []reaction
}

type reaction struct {
	user    int64
	content string
}

type review struct {
	id        int64
	author    *user
	state     string
	body      string
	commit    string
	submitted time.Time
	dismissed bool
}

type reviewComment struct {
	comment
	review, replyTo int64
	path            string
	line            int
	commit          string
}

type check struct {
	SHA, Name, State string
	Run              bool // a check run, not a status
}

// New starts a server. The caller closes it.
func New(kind forge.Kind) *Server {
	s := &Server{kind: kind, clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s.Server = httptest.NewServer(s.routes())
	return s
}

// advanceClock advances the clock.
func (s *Server) advanceClock() time.Time {
	s.clock = s.clock.Add(time.Second)
	return s.clock
}

func (s *Server) nextID() int64 {
	s.lastID++
	return 1000 + s.lastID
}

// AddUser adds an account and returns its id and its token. The type is User or Bot.
func (s *Server) AddUser(login, kind string) (id int64, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &user{ID: s.nextID(), Login: login, Type: kind, token: "token-of-" + login}
	s.users = append(s.users, u)
	return u.ID, u.token
}

// Rename gives an account another name. Its token stays.
func (s *Server) Rename(login, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustUser(login).Login = to
}

// AddRepository adds a repository, OWNER/NAME, whose commits are in a bare repository. It returns the address for git.
func (s *Server) AddRepository(path, dir string) (cloneURL string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner, name, _ := strings.Cut(path, "/")
	u := s.findUser(owner)
	if u == nil {
		u = &user{ID: s.nextID(), Login: owner, Type: "Organization"}
		s.users = append(s.users, u)
	}
	s.repos = append(s.repos, &repo{id: s.nextID(), owner: u, name: name, dir: dir, roles: map[int64]forge.Role{}})
	return s.URL + "/" + path + ".git"
}

// SetDir has a repository hold the commits of another bare repository.
func (s *Server) SetDir(path, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustRepo(path).dir = dir
}

// SetPrivate hides a repository from users without a role.
func (s *Server) SetPrivate(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustRepo(path).private = true
}

// SetRole gives a user a role in a repository.
func (s *Server) SetRole(path, login string, role forge.Role) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustRepo(path).roles[s.mustUser(login).ID] = role
}

// OpenIssue opens an issue as a user, and returns its number.
func (s *Server) OpenIssue(path, login, title, body string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(path)
	i := s.addItem(r, s.mustUser(login), title, body)
	s.emitItem(r, "issues", "opened", i, nil)
	return i.number
}

// Comment writes a comment as a user, and returns its id.
func (s *Server) Comment(path, login string, number int, body string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(path)
	return s.addComment(r, r.items[number-1], s.mustUser(login), body).id
}

// EditComment changes a comment as a user.
func (s *Server) EditComment(path, login string, id int64, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(path)
	if i, c := r.findComment(id); c != nil {
		s.changeComment(r, s.mustUser(login), i, c, body)
	}
}

// EditIssue changes the text of an issue as a user.
func (s *Server) EditIssue(path, login string, number int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(path)
	i := r.items[number-1]
	i.body, i.updated = body, s.advanceClock()
	s.emitAs(r, s.mustUser(login), "issues", "edited", i, nil)
}

// DeleteComment deletes a comment as a user.
func (s *Server) DeleteComment(path, login string, id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(path)
	i, c := r.findComment(id)
	s.emitAs(r, s.mustUser(login), "issue_comment", "deleted", i, map[string]any{"comment": s.commentJSON(r, i, c)})
	i.comments = slices.DeleteFunc(i.comments, func(k *comment) bool { return k == c })
}

func (s *Server) changeComment(r *repo, by *user, i *item, c *comment, body string) {
	was := c.body
	c.body, c.updated = body, s.advanceClock()
	s.emitAs(r, by, "issue_comment", "edited", i, map[string]any{
		"comment": s.commentJSON(r, i, c), "changes": map[string]any{"body": map[string]any{"from": was}},
	})
}

// Review is a review that a person submits: APPROVED, CHANGES_REQUESTED or COMMENTED. Saw is the commit that the person looked
// at; by default the head.
type Review struct {
	State, Body, Saw string
	Comments         []LineComment
}

// LineComment is a comment of a review on a line of a file.
type LineComment struct {
	Path string
	Line int
	Body string
}

// Review reviews the head of a pull request as a user. It returns the number of the review.
func (s *Server) Review(path, login string, number int, w Review) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(path)
	i := r.items[number-1]
	v := &review{id: s.nextID(), author: s.mustUser(login), state: w.State, body: w.Body, commit: cmp.Or(w.Saw, i.pull.headSHA), submitted: s.advanceClock()}
	i.pull.reviews = append(i.pull.reviews, v)
	for _, l := range w.Comments {
		c := &reviewComment{comment: comment{id: s.nextID(), author: v.author, body: l.Body, created: v.submitted, updated: v.submitted}, review: v.id, path: l.Path, line: l.Line, commit: v.commit}
		i.pull.reviewComments = append(i.pull.reviewComments, c)
		if s.kind == forge.GitHub {
			s.emitItem(r, "pull_request_review_comment", "created", i, map[string]any{"comment": s.reviewCommentJSON(r, i, c)})
		}
	}
	s.emitReview(r, "submitted", i, v)
	return v.id
}

// Dismiss dismisses a review.
func (s *Server) Dismiss(path, login string, number int, id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(path)
	i := r.items[number-1]
	for _, v := range i.pull.reviews {
		if v.id != id {
			continue
		}
		v.dismissed = true
		if s.kind == forge.GitHub { // Gitea does not tell
			s.emitAs(r, s.mustUser(login), "pull_request_review", "dismissed", i, map[string]any{"review": s.reviewJSON(i, v)})
		}
	}
}

// MoveToFork has a pull request come from another repository.
func (s *Server) MoveToFork(path string, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustRepo(path).items[number-1].pull.fork = true
}

// ClosePull closes a pull request as a user.
func (s *Server) ClosePull(path, login string, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(path)
	i := r.items[number-1]
	i.open, i.updated = false, s.advanceClock()
	s.emitAs(r, s.mustUser(login), "pull_request", "closed", i, nil)
}

func (s *Server) addItem(r *repo, author *user, title, body string) *item {
	now := s.advanceClock()
	i := &item{id: s.nextID(), number: len(r.items) + 1, title: title, body: body, author: author, open: true, created: now, updated: now}
	r.items = append(r.items, i)
	return i
}

func (s *Server) addComment(r *repo, i *item, author *user, body string) *comment {
	now := s.advanceClock()
	c := &comment{id: s.nextID(), author: author, body: body, created: now, updated: now}
	i.comments = append(i.comments, c)
	i.updated = now
	s.emitItem(r, "issue_comment", "created", i, map[string]any{"comment": s.commentJSON(r, i, c)})
	return c
}

func (s *Server) findUser(login string) *user {
	if i := slices.IndexFunc(s.users, func(u *user) bool { return strings.EqualFold(u.Login, login) }); i >= 0 {
		return s.users[i]
	}
	return nil
}

func (s *Server) mustUser(login string) *user {
	u := s.findUser(login)
	if u == nil {
		panic("forgetest: there is no user " + login)
	}
	return u
}

func (s *Server) findRepo(path string) *repo {
	if i := slices.IndexFunc(s.repos, func(r *repo) bool { return strings.EqualFold(r.path(), path) }); i >= 0 {
		return s.repos[i]
	}
	return nil
}

func (s *Server) mustRepo(path string) *repo {
	r := s.findRepo(path)
	if r == nil {
		panic("forgetest: there is no repository " + path)
	}
	return r
}

func (r *repo) path() string { return r.owner.Login + "/" + r.name }

func (r *repo) findComment(id int64) (*item, *comment) {
	for _, i := range r.items {
		for _, c := range i.comments {
			if c.id == id {
				return i, c
			}
		}
	}
	return nil, nil
}

// roleOf returns the role of a user; everyone may read a public repository.
func (r *repo) roleOf(u *user) forge.Role {
	role := r.roles[u.ID]
	switch {
	case u == r.owner:
		return forge.Admin
	case role == "" && r.private:
		return forge.NoRole
	case role == "":
		return forge.Read
	}
	return role
}

// Dump returns the state as lines, for scripts to match: one for each issue, pull request, label, comment, check and
// branch that is there.
func (s *Server) Dump() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, r := range s.repos {
		for _, i := range r.items {
			kind := "issue"
			if i.pull != nil {
				kind = "pull"
			}
			fmt.Fprintf(&b, "%s %s#%d by %s open=%t: %q\n", kind, r.path(), i.number, i.author.Login, i.open, i.title)
			if p := i.pull; p != nil {
				fmt.Fprintf(&b, "branches %s#%d %s into %s draft=%t at %s\n", r.path(), i.number, p.head, p.base, p.draft, p.headSHA)
			}
			fmt.Fprintf(&b, "body %s#%d %q\n", r.path(), i.number, i.body)
			for _, l := range i.labels {
				fmt.Fprintf(&b, "label %s#%d %s\n", r.path(), i.number, l)
			}
			for _, c := range i.comments {
				fmt.Fprintf(&b, "comment %s#%d by %s: %q\n", r.path(), i.number, c.author.Login, c.body)
			}
			if i.pull == nil {
				continue
			}
			for _, c := range i.pull.reviewComments {
				fmt.Fprintf(&b, "review-comment %s#%d by %s at %s:%d reply=%t: %q\n", r.path(), i.number, c.author.Login, c.path, c.line, c.replyTo != 0, c.body)
			}
		}
		for _, c := range r.checks {
			fmt.Fprintf(&b, "check %s %s %s run=%t\n", c.SHA, c.Name, c.State, c.Run)
		}
	}
	return b.String()
}

// A fault changes the answers to some requests.
type fault struct {
	method, part string // of the path
	times        int
	act          func(w http.ResponseWriter, r *http.Request, serve func())
}

// Fail answers the next requests of a method whose path contains part with a status and headers, without performing them.
func (s *Server) Fail(method, part string, times, status int, header http.Header) {
	s.addFault(method, part, times, func(w http.ResponseWriter, _ *http.Request, _ func()) {
		for name, values := range header {
			w.Header()[name] = values
		}
		writeProblem(w, status, "it was told to fail")
	})
}

// LoseAnswer performs the next such request and ends its connection without an answer.
func (s *Server) LoseAnswer(method, part string) {
	s.addFault(method, part, 1, func(_ http.ResponseWriter, _ *http.Request, serve func()) {
		serve()
		panic(http.ErrAbortHandler)
	})
}

// HoldAnswer performs the next such request, closes reached, and gives no answer before the client is gone.
func (s *Server) HoldAnswer(method, part string) (reached <-chan struct{}) {
	done := make(chan struct{})
	s.addFault(method, part, 1, func(_ http.ResponseWriter, r *http.Request, serve func()) {
		serve()
		close(done)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})
	return done
}

func (s *Server) addFault(method, part string, times int, act func(http.ResponseWriter, *http.Request, func())) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault{method, part, times, act})
}

// Requests returns how many requests the server answered, and how many of them with 304.
func (s *Server) Requests() (all, unchanged int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.unchanged
}
