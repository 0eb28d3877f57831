package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/artifact"
	"github.com/spritekit/lattice/orchestrator/budget"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/loop"
	"github.com/spritekit/lattice/orchestrator/proposal"
	"github.com/spritekit/lattice/orchestrator/worker"
)

// lists is a leader each of whose lists has the items 1 to 105.
type lists struct{ api.Service }

func items[T any](item func(name string, n int) T) (all []T, err error) {
	for n := range 105 {
		all = append(all, item(fmt.Sprint("name_", n+1), n+1))
	}
	return all, nil
}

// from cuts a page as a leader does that seeks.
func from[T any](all []T, last string, limit int, name func(T) string) ([]T, error) {
	if last != "" {
		all = all[1+slices.IndexFunc(all, func(v T) bool { return name(v) == last }):]
	}
	if limit > 0 {
		all = all[:min(limit, len(all))]
	}
	return all, nil
}

func (lists) Runs(_ context.Context, which api.RunList) ([]api.RunView, error) {
	all, _ := items(func(name string, _ int) api.RunView { return api.RunView{RunID: name, Waits: make([]lattice.Wait, 1)} })
	return from(all, which.Before, which.Limit, func(v api.RunView) string { return v.RunID })
}

func (lists) ListLoops(_ context.Context, which api.RunList) ([]loop.View, string, error) {
	all, _ := items(func(name string, _ int) loop.View { return loop.View{RunID: name} })
	page, err := from(all, which.Before, which.Limit, func(v loop.View) string { return v.RunID })
	if len(page) < which.Limit || which.Limit == 0 {
		return page, "", err
	}
	return page, page[len(page)-1].RunID, err
}

func (lists) Tasks(_ context.Context, q api.TaskQuery) ([]api.TaskView, error) {
	all, _ := items(func(name string, _ int) (v api.TaskView) { v.ID = name; return v })
	return from(all, q.After, q.Limit, func(v api.TaskView) string { return v.ID })
}

func (lists) Intents(_ context.Context, before string, limit int) ([]intent.State, error) {
	all, _ := items(func(name string, _ int) intent.State { return intent.State{ID: name} })
	return from(all, before, limit, func(v intent.State) string { return v.ID })
}

func (lists) Products(_ context.Context, q api.ProductQuery) ([]artifact.Product, error) {
	all, _ := items(func(name string, n int) artifact.Product { return artifact.Product{RunID: "run", Seq: lattice.Seq(n)} })
	return from(all, q.Before, q.Limit, artifact.Product.Name)
}

func (lists) ListBoards(context.Context) ([]api.BoardView, error) {
	return items(func(name string, _ int) api.BoardView { return api.BoardView{Name: name} })
}

func (lists) Workers(context.Context, string) ([]api.WorkerView, error) {
	return items(func(name string, _ int) api.WorkerView { return api.WorkerView{Board: "b", Name: name} })
}

func (lists) Queue(context.Context, string) ([]worker.Request, error) {
	return items(func(name string, _ int) worker.Request { return worker.Request{ID: name} })
}

func (lists) Deliveries(context.Context, string, int) ([]api.DeliveryView, error) {
	return items(func(name string, _ int) api.DeliveryView { return api.DeliveryView{Forge: "f", ID: name} })
}

func (lists) Proposals(context.Context, api.ProposalList) ([]proposal.State, error) {
	return items(func(name string, _ int) proposal.State { return proposal.State{ID: name} })
}

func (lists) Moments(context.Context, string) ([]api.Moment, error) {
	return items(func(_ string, n int) api.Moment { return api.Moment{Node: "n", Visit: n} })
}

func (lists) Turns(context.Context, string) ([]api.Turn, error) {
	return items(func(_ string, n int) api.Turn { return api.Turn{Turn: n} })
}

func (lists) Candidates(context.Context, string) ([]api.Candidate, error) {
	return items(func(_ string, n int) api.Candidate { return api.Candidate{Try: n} })
}

func (lists) Actions(context.Context, string) ([]api.NotedAction, error) {
	return items(func(name string, _ int) api.NotedAction { return api.NotedAction{RunID: "name_1", Key: name} })
}

func (lists) Skills(context.Context, string) ([]api.SpriteSkill, error) {
	return items(func(name string, _ int) api.SpriteSkill { return api.SpriteSkill{Name: name} })
}

func (lists) ListFlows(context.Context) ([]api.FlowView, error) {
	return items(func(name string, _ int) api.FlowView { return api.FlowView{Name: name} })
}

func (lists) Budgets(context.Context, string, bool) ([]api.BudgetView, error) {
	return items(func(name string, _ int) api.BudgetView { return api.BudgetView{Scope: budget.Scope(name)} })
}

func (lists) Cost(context.Context, string) ([]api.CostLine, error) {
	return items(func(name string, _ int) api.CostLine { return api.CostLine{Name: name} })
}

func (lists) Schedules(context.Context) ([]api.ScheduleView, error) {
	return items(func(name string, _ int) api.ScheduleView { return api.ScheduleView{Name: name} })
}

func (lists) Secrets(context.Context, bool) ([]api.SecretView, error) {
	return items(func(name string, _ int) api.SecretView { return api.SecretView{Name: name} })
}

func (lists) Tokens(context.Context) ([]api.Token, error) {
	return items(func(name string, _ int) api.Token { return api.Token{Name: name} })
}

// TestPagesOfLists: every route that answers with a list has pages. The header Link leads through all of them, and each item is on one.
func TestPagesOfLists(t *testing.T) {
	t.Parallel()
	handler, tried := api.Handler(lists{}, nil), 0
	get := func(path string) (page []json.RawMessage, next string) {
		t.Helper()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if err := json.Unmarshal(w.Body.Bytes(), &page); w.Code != http.StatusOK || err != nil {
			t.Errorf("%s: %d %s %v", path, w.Code, w.Body, err)
		}
		next, _, _ = strings.Cut(strings.TrimPrefix(w.Header().Get("Link"), "<"), ">")
		return page, next
	}
	for _, route := range api.Routes(lists{}) {
		if route.Method != http.MethodGet || route.Media != "application/json" || route.Out.Kind() != reflect.Slice || route.Out == reflect.TypeFor[json.RawMessage]() {
			continue
		}
		tried++
		path := strings.ReplaceAll(route.Path, "{id}", "x")
		usual, next := get(path)
		if rest, end := get(next); len(usual) != 100 || len(rest) != 5 || end != "" {
			t.Errorf("%s without a limit has %d items, and %d on the page behind them at %q", path, len(usual), len(rest), next)
		}
		all, next := get(path + "?limit=0")
		if whole := strings.HasSuffix(path, "/loops") || len(all) == 105 && next == ""; !whole {
			t.Errorf("%s without limits has %d items, and goes on at %q", path, len(all), next)
		}
		var sizes []int
		var paged []json.RawMessage
		for next = path + "?limit=50"; next != "" && len(sizes) < 9; {
			var page []json.RawMessage
			page, next = get(next)
			sizes, paged = append(sizes, len(page)), append(paged, page...)
		}
		if !slices.Equal(sizes, []int{50, 50, 5}) || fmt.Sprintf("%s", paged) != fmt.Sprintf("%s", all) {
			t.Errorf("%s has pages of %v items: %s", path, sizes, paged)
		}
	}
	if tried < 20 {
		t.Errorf("only %d routes answer with a list", tried)
	}
	for query, code := range map[string]string{"after=none": "list_changed", "limit=-1": "bad_request", "limit=x": "bad_request"} {
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, api.Root+"/workers?"+query, nil)); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"`+code+`"`) {
			t.Errorf("/workers?%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// many is a leader with 2,500 runs and tokens. The token at which the first page ends is removed when that was read once.
type many struct {
	api.Service
	reads atomic.Int32
}

func (m *many) Runs(_ context.Context, which api.RunList) ([]api.RunView, error) {
	var all []api.RunView
	for n := range 2500 {
		all = append(all, api.RunView{RunID: fmt.Sprint("run_", n)})
	}
	return from(all, which.Before, which.Limit, func(v api.RunView) string { return v.RunID })
}

func (m *many) Tokens(context.Context) ([]api.Token, error) {
	m.reads.Add(1)
	var all []api.Token
	for n := range 2500 {
		if m.reads.Load() == 1 || n != 999 {
			all = append(all, api.Token{Name: fmt.Sprint("t", n)})
		}
	}
	return all, nil
}

// TestClientReadsPages: no page is longer than 1000, whatever the request says, and a client reads lists page by page, again from
// the first one if the list has changed.
func TestClientReadsPages(t *testing.T) {
	t.Parallel()
	leader := &many{}
	var asked []string
	handler := api.Handler(leader, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	for _, limit := range []string{"0", "1001", "9223372036854775807"} {
		var page []json.RawMessage
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, api.Root+"/runs?limit="+limit, nil))
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page) != 1000 || !strings.Contains(w.Header().Get("Link"), "before=run_999&") {
			t.Errorf("limit=%s: %d items, %s, %v", limit, len(page), w.Header().Get("Link"), err)
		}
	}
	c := api.NewClientOver(&http.Client{Transport: to(strings.TrimPrefix(server.URL, "http://"))})
	defer c.Close()
	for limit, pages := range map[int]int{0: 3, 7: 1, 1000: 1, 1200: 2, 9000: 3} {
		asked = nil
		runs, err := c.Runs(t.Context(), api.RunList{Limit: limit, Open: true})
		want := min(cmp.Or(limit, 2500), 2500)
		if err != nil || len(runs) != want || runs[want-1].RunID != fmt.Sprint("run_", want-1) || len(asked) != pages {
			t.Errorf("limit %d: %d runs from %q, %v", limit, len(runs), asked, err)
		}
		for _, query := range asked {
			if !strings.Contains(query, "open=true") {
				t.Errorf("limit %d: a page was read with %s", limit, query)
			}
		}
	}
	leader.reads.Store(0)
	if tokens, err := c.Tokens(t.Context()); err != nil || len(tokens) != 2499 || leader.reads.Load() != 5 {
		t.Errorf("%d tokens after %d pages, %v", len(tokens), leader.reads.Load(), err)
	}
}

// to sends all requests to a host.
type to string

func (host to) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Host = string(host)
	return http.DefaultTransport.RoundTrip(r)
}
