package forgetest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// prefix returns the folder of the REST interface.
func (s *model) prefix() string {
	if s.kind == forge.GitHub {
		return "/api/v3"
	}
	return "/api/v1"
}

// model is the state of a code host.
type model struct {
	kind forge.Kind
	web  string // the address of the server

	mu         sync.Mutex // held while a request is answered, and never while an answer is held back
	clock      time.Time
	lastID     int64
	users      []*user
	repos      []*repo
	deliveries []Delivery
	app        *app // nil: there is none
	lag        int  // the lists that lack the newest entry
}

// dropNewest returns a list as a copy of the data has it that is behind.
func (s *model) dropNewest(list []any) []any {
	if s.lag == 0 || len(list) == 0 {
		return list
	}
	s.lag--
	return list[:len(list)-1]
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
	resolved        bool // the thread that it begins
}

type check struct {
	SHA, Name, State string
	Run              bool // a check run, not a status
}

// advanceClock advances the clock.
func (s *model) advanceClock() time.Time {
	s.clock = s.clock.Add(time.Second)
	return s.clock
}

func (s *model) nextID() int64 {
	s.lastID++
	return 1000 + s.lastID
}

func (s *model) changeComment(r *repo, by *user, i *item, c *comment, body string) {
	was := c.body
	c.body, c.updated = body, s.advanceClock()
	s.emitAs(r, by, "issue_comment", "edited", i, map[string]any{
		"comment": s.commentJSON(r, i, c), "changes": map[string]any{"body": map[string]any{"from": was}},
	})
}

func (s *model) addItem(r *repo, author *user, title, body string) *item {
	now := s.advanceClock()
	i := &item{id: s.nextID(), number: len(r.items) + 1, title: title, body: body, author: author, open: true, created: now, updated: now}
	r.items = append(r.items, i)
	return i
}

func (s *model) addComment(r *repo, i *item, author *user, body string) *comment {
	now := s.advanceClock()
	c := &comment{id: s.nextID(), author: author, body: body, created: now, updated: now}
	i.comments = append(i.comments, c)
	i.updated = now
	s.emitItem(r, "issue_comment", "created", i, map[string]any{"comment": s.commentJSON(r, i, c)})
	return c
}

func (s *model) findUser(login string) *user {
	if i := slices.IndexFunc(s.users, func(u *user) bool { return strings.EqualFold(u.Login, login) }); i >= 0 {
		return s.users[i]
	}
	return nil
}

func (s *model) mustUser(login string) *user {
	u := s.findUser(login)
	if u == nil {
		panic("forgetest: there is no user " + login)
	}
	return u
}

func (s *model) findRepo(path string) *repo {
	if i := slices.IndexFunc(s.repos, func(r *repo) bool { return strings.EqualFold(r.path(), path) }); i >= 0 {
		return s.repos[i]
	}
	return nil
}

func (s *model) mustRepo(path string) *repo {
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
