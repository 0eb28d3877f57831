package forgetest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// hooks answers requests about webhooks.
type hooks struct{ *model }

func (s hooks) listHooks(q request) {
	var out []any
	for _, h := range q.repo.hooks {
		out = append(out, hookJSON(h))
	}
	q.writePage(s.model, out)
}

func hookJSON(h hook) map[string]any {
	return map[string]any{"id": h.id, "active": true, "events": h.events, "config": map[string]string{"url": h.url, "content_type": "json"}}
}

func (s hooks) createHook(q request) {
	var in struct {
		Name, Type string
		Active     bool
		Events     []string
		Config     struct {
			URL         string
			ContentType string `json:"content_type"`
			Secret      string
		}
	}
	if !q.decode(&in) {
		return
	}
	if (in.Name != "web") == (s.kind == forge.GitHub) || (in.Type != "gitea") == (s.kind == forge.Gitea) || in.Config.ContentType != "json" || in.Config.URL == "" {
		writeProblem(q.w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	h := hook{s.nextID(), in.Config.URL, in.Config.Secret, in.Events}
	q.repo.hooks = append(q.repo.hooks, h)
	q.writeJSON(http.StatusCreated, hookJSON(h))
}

// editHook changes the events of a webhook.
func (s hooks) editHook(q request) {
	var in struct {
		Active bool
		Events []string
	}
	if !q.decode(&in) {
		return
	}
	for n := range q.repo.hooks {
		if h := &q.repo.hooks[n]; strconv.FormatInt(h.id, 10) == q.PathValue("id") {
			h.events = in.Events
			q.writeJSON(http.StatusOK, hookJSON(*h))
			return
		}
	}
	writeProblem(q.w, http.StatusNotFound, "Not Found")
}

func (s hooks) listDeliveries(q request) {
	var out []any
	for _, d := range slices.Backward(s.deliveries) {
		if strconv.FormatInt(d.hook.id, 10) == q.PathValue("id") {
			out = append(out, map[string]any{"id": d.ID, "guid": d.GUID, "event": d.Event, "action": d.Action, "status_code": d.Status, "delivered_at": s.clock})
		}
	}
	q.writePage(s.model, out)
}

// redeliver queues another attempt of a delivery, which keeps its GUID.
func (s hooks) redeliver(q request) {
	for _, d := range s.deliveries {
		if strconv.FormatInt(d.ID, 10) == q.PathValue("delivery") && strconv.FormatInt(d.hook.id, 10) == q.PathValue("id") {
			d.ID, d.Status = s.nextID(), 0
			s.deliveries = append(s.deliveries, d)
			q.writeJSON(http.StatusAccepted, map[string]any{})
			return
		}
	}
	writeProblem(q.w, http.StatusNotFound, "Not Found")
}

type hook struct {
	id     int64
	url    string
	secret string
	events []string
}

// Delivery is the delivery of an event to a webhook. It happens only when the test sends it, as often and in any order
// that the test likes; each time with the same GUID.
type Delivery struct {
	ID     int64
	GUID   string
	Event  string
	Type   string // the kind of a review, which Gitea tells in a header
	Action string
	Body   []byte
	Status int // of the last answer, 0 before the first
	hook   hook
}

// emitItem queues an event for the webhooks of a repository. Its sender is the author of the item, or of the comment or review
// in it.
func (s *model) emitItem(r *repo, event, action string, i *item, more map[string]any) {
	by := i.author
	for _, name := range []string{"comment", "review"} {
		if part, ok := more[name].(map[string]any); ok {
			by, _ = part["user"].(*user)
		}
	}
	s.emitAs(r, by, event, action, i, more)
}

// giteaReviews are the names that Gitea gives to reviews, by their state: in the header of the event and in that of its type.
var giteaReviews = map[string][2]string{
	"APPROVED":          {"pull_request_approved", "pull_request_review_approved"},
	"CHANGES_REQUESTED": {"pull_request_rejected", "pull_request_review_rejected"},
	"COMMENTED":         {"pull_request_comment", "pull_request_review_comment"},
}

// emitReview queues the event of a review. Gitea's has neither its number nor its author.
func (s *model) emitReview(r *repo, action string, i *item, v *review) {
	if s.kind == forge.GitHub {
		s.emitItem(r, "pull_request_review", action, i, map[string]any{"review": s.reviewJSON(i, v)})
		return
	}
	names, before := giteaReviews[v.state], len(s.deliveries)
	s.emitAs(r, v.author, names[0], "reviewed", i, map[string]any{"review": map[string]any{"type": names[1], "content": v.body}})
	for n := before; n < len(s.deliveries); n++ {
		s.deliveries[n].Type = names[1]
	}
}

func (s *model) emitAs(r *repo, by *user, event, action string, i *item, more map[string]any) {
	body := map[string]any{"action": action, "repository": s.repoJSON(r), "sender": by}
	if i.pull != nil && event != "issue_comment" {
		body["pull_request"] = s.pullJSON(r, i)
		body["number"] = i.number
	} else {
		body["issue"] = s.issueJSON(r, i)
	}
	for name, v := range more {
		body[name] = v
	}
	s.emitBody(r, event, action, body)
}

// emitBody queues an event for the webhooks that want it.
func (s *model) emitBody(r *repo, event, action string, body map[string]any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // the values are made here
	}
	for _, h := range r.hooks {
		if !slices.Contains(h.events, event) && !slices.Contains(h.events, "*") {
			continue
		}
		id := s.nextID()
		s.deliveries = append(s.deliveries, Delivery{ID: id, GUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", id), Event: event, Action: action, Body: text, hook: h})
	}
}

// AddHook adds a webhook for all events.
func (s *Server) AddHook(path, url, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.mustRepo(path)
	r.hooks = append(r.hooks, hook{s.nextID(), url, secret, []string{"*"}})
}

// Deliveries returns the deliveries so far, oldest first.
func (s *Server) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deliveries)
}

// Send sends a delivery to its webhook and returns the status of the answer.
func (s *Server) Send(ctx context.Context, d Delivery) (int, error) {
	return s.SendTo(ctx, d.hook.url, d)
}

// SendTo sends a delivery to another server in place of its webhook.
func (s *Server) SendTo(ctx context.Context, url string, d Delivery) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(d.Body))
	if err != nil {
		return 0, err
	}
	mac := hmac.New(sha256.New, []byte(d.hook.secret))
	mac.Write(d.Body)
	sum := hex.EncodeToString(mac.Sum(nil))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "GitHub-Hookshot/forgetest")
	r.Header.Set("X-Github-Event", d.Event)
	r.Header.Set("X-Github-Delivery", d.GUID)
	r.Header.Set("X-Hub-Signature-256", "sha256="+sum)
	if s.kind == forge.Gitea {
		r.Header.Set("X-Gitea-Event", d.Event)
		if d.Type != "" {
			r.Header.Set("X-Gitea-Event-Type", d.Type)
		}
		r.Header.Set("X-Gitea-Delivery", d.GUID)
		r.Header.Set("X-Gitea-Signature", sum)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.deliveries {
		if s.deliveries[i].ID == d.ID {
			s.deliveries[i].Status = res.StatusCode
		}
	}
	return res.StatusCode, nil
}
