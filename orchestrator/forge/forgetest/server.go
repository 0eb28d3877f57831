// Package forgetest is a code host for tests: a server that holds its state in memory and speaks the parts of the REST
// interfaces of GitHub or Gitea that lattice uses, and serves repositories through git's own http-backend. Start with New.
//
//	server       the acts of people and of tests
//	faults       answers that fail, are late or are lost
//	model        users, repositories and issues
//	requests     the credentials and the role of a request
//	routes       the REST interface; issues, pulls, checks and hooks have the requests about them, answers the JSON of all of them
//	description  GitHub's published description of that interface, which judges each request and each answer
//	git          clones and pushes; GitHub's reviews move with a force-push
//	limit        a limit of writes, whose end Retry-After tells
//	app          a GitHub App, which mints its tokens
//	threads      comments on lines, and the part of GitHub's GraphQL interface that resolves their threads
//	hooks        deliveries of webhooks, which the test sends, repeats, drops or reorders itself
//
// The server is as strict as the real one: it refuses requests that GitHub's description does not admit, unknown members, missing headers
// and calls without permission.
// Nothing in it depends on the time of day: its clock advances by a second with each change.
package forgetest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// Server is a code host. Its methods are the acts of people and of tests.
type Server struct {
	*httptest.Server
	*model
	faults

	limit     *limit // nil: there is none
	unchanged int
}

// New starts a server. The caller closes it.
func New(kind forge.Kind) *Server {
	s := &Server{model: &model{kind: kind, clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	s.Server = httptest.NewServer(s.routes())
	s.web = s.URL
	return s
}

// AddUser adds an account and returns its id and its token. The type is User or Bot.
func (s *Server) AddUser(login, kind string) (id int64, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &user{ID: s.nextID(), Login: login, Type: kind, token: "token-of-" + login}
	s.users = append(s.users, u)
	return u.ID, u.token
}

// SetClock sets the time of the next change.
func (s *Server) SetClock(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = at.UTC().Truncate(time.Second)
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
	i.updated = v.submitted
	for _, l := range w.Comments {
		c := s.addLineComment(i, v, l.Path, l.Line, l.Body)
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

// Label adds a label to an issue as a user.
func (s *Server) Label(path, login string, number int, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(path)
	i := r.items[number-1]
	s.labelItem(r, i, []string{name})
	s.emitAs(r, s.mustUser(login), "issues", "labeled", i, map[string]any{"label": map[string]any{"name": name}})
}

// MoveToFork has a pull request come from another repository, or from its own again.
func (s *Server) MoveToFork(path string, number int, fork bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustRepo(path).items[number-1].pull.fork = fork
}

// CloseIssue closes an issue as a user.
func (s *Server) CloseIssue(path, login string, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(path)
	i := r.items[number-1]
	i.open, i.updated = false, s.advanceClock()
	s.emitAs(r, s.mustUser(login), "issues", "closed", i, nil)
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

// Dump returns the state as lines, for scripts to match: one for each issue, pull request, label, comment, reaction,
// check and branch that is there.
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
				for _, re := range c.reactions {
					fmt.Fprintf(&b, "reaction %s#%d %s to %q\n", r.path(), i.number, re.content, c.body)
				}
			}
			if i.pull == nil {
				continue
			}
			for _, c := range i.pull.reviewComments {
				fmt.Fprintf(&b, "review-comment %s#%d by %s at %s:%d reply=%t resolved=%t: %q\n", r.path(), i.number, c.author.Login, c.path, c.line, c.replyTo != 0, c.resolved, c.body)
			}
		}
		for _, c := range r.checks {
			fmt.Fprintf(&b, "check %s %s %s run=%t\n", c.SHA, c.Name, c.State, c.Run)
		}
	}
	return b.String()
}

// Lag has the next lists of comments and of reviews lack the newest one, as those of a copy of the data that is behind.
func (s *Server) Lag(times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = times
}

// Requests returns how many requests the server answered, and how many of them with 304.
func (s *Server) Requests() (all, unchanged int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.countRequests(), s.unchanged
}

// withETag adds an ETag to answers of GET, and answers 304 if the client has that answer.
func (s *Server) withETag(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || s.kind != forge.GitHub {
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		sum := sha256.Sum256(rec.Body.Bytes())
		etag := `W/"` + hex.EncodeToString(sum[:8]) + `"`
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		if rec.Code == http.StatusOK {
			w.Header().Set("ETag", etag)
			if r.Header.Get("If-None-Match") == etag {
				s.mu.Lock()
				s.unchanged++
				s.mu.Unlock()
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		w.WriteHeader(rec.Code)
		_, _ = io.Copy(w, rec.Body)
	})
}
