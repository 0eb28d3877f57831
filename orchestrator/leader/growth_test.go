package leader

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/dashboard"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/store"
)

// TestLooksCostTheSame holds that the lists and looks of a leader do the same work among 100 runs and among 2,000: it
// counts allocations, of which each record that is read makes some.
func TestLooksCostTheSame(t *testing.T) {
	home := home.Home(t.TempDir())
	run := runWithActions(t, home)
	l := openLeader(t, home, nil, nil)
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	c := crowd{t: t, l: l}
	grow := c.grow
	rec, err := l.Records.Load(run)
	if err != nil {
		t.Fatal(err)
	}
	looks := map[string]func() error{
		"waiting":            func() error { _, err := l.Actions(t.Context(), "*"); return err },
		"events --work-item": func() error { _, err := l.Runs(t.Context(), api.RunList{WorkItem: rec.WorkItem}); return err },
		"open runs":          func() error { _, err := l.Runs(t.Context(), api.RunList{Open: true}); return err },
		"doctor":             func() error { l.Hello(); _, err := l.Runs(t.Context(), api.RunList{Limit: 1}); return err },
		"spare checkpoints":  func() error { _, err := l.Views.States.EncodeUsers("dev"); return err },
		"sprite free":        func() error { return l.Views.States.CheckSpriteFree(run, "dev") },
		"rewind": func() error {
			p := history.Past{Run: rec, Facts: []lattice.Entry{{Seq: 1}}, Points: []replay.Point{{Moment: lattice.Moment{Seq: 1}, Files: replay.FilesUnchanged}}}
			p.Sprite = "dev"
			return l.Views.States.MarkShared(p)
		},
	}
	costs := map[string]float64{}
	grow(100)
	for name, look := range looks {
		costs[name] = testing.AllocsPerRun(5, func() {
			if err := look(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	grow(2_000)
	for name, look := range looks {
		if many := testing.AllocsPerRun(5, func() { _ = look() }); many > costs[name]*1.2+10 {
			t.Errorf("%s makes %.0f allocations among 100 runs, %.0f among %d", name, costs[name], many, c.made)
		}
	}
}

// crowd is a leader with many runs that have ended.
type crowd struct {
	t    testing.TB
	l    *Leader
	made int
}

func (c *crowd) grow(to int) {
	c.t.Helper()
	var group errgroup.Group
	group.SetLimit(500) // they share commits
	for ; c.made < to; c.made++ {
		id := fmt.Sprintf("run_%05d", c.made)
		group.Go(func() error {
			r := store.RunRecord{ID: id, Created: time.Now(), Secret: make([]byte, 32), Program: []byte(packs), Sprite: id, WorkItem: id, Options: []byte(`{}`)}
			if err := c.l.store.Create(c.t.Context(), r); err != nil {
				return err
			}
			noted := lattice.Entry{Run: id, Kind: lattice.EntryFact, Type: "ActionNoted", Body: []byte(`{"action":{"key":"k"},"verdict":"ask"}`)}
			decided := lattice.Entry{Run: id, Kind: lattice.EntryFact, Type: "ActionDecided", Body: []byte(`{"key":"k","decision":"reject"}`)}
			over := lattice.Entry{Run: id, Kind: lattice.EntryState, Type: "State", Body: []byte(`{"status":"succeeded"}`), Flags: []string{lattice.FlagEnded}}
			_, err := c.l.store.Append(c.t.Context(), id, 0, []lattice.Entry{noted, decided, over})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		c.t.Fatal(err)
	}
}

// request is one of the interface, or of a page.
type request struct {
	path  string
	serve func(w http.ResponseWriter, r *http.Request)
}

// requests lists every read of the interface that answers at once, and the pages that are not about one run or board, and some that are.
func (c *crowd) requests(run string) (all []request) {
	for _, r := range api.Routes(nil) {
		if r.Method == http.MethodGet && r.Media == "application/json" {
			all = append(all, request{strings.ReplaceAll(r.Path, "{id}", run), c.l.Handler().ServeHTTP})
		}
	}
	page := dashboard.New(c.l)
	serve := func(w http.ResponseWriter, r *http.Request) {
		page.Serve(w, r, dashboard.Visitor{Who: audit.Who{Name: "a"}, Role: route.Admin, CSRF: "c"})
	}
	for _, path := range []string{"/runs", "/runs?flow=none", "/runs?status=waiting", "/waiting", "/runs/RUN", "/runs/RUN/events", "/runs/RUN/log", "/tasks", "/loops", "/intents", "/proposals", "/flows", "/artifacts", "/cost", "/sprites", "/audit", "/deliveries"} {
		all = append(all, request{strings.ReplaceAll(path, "RUN", run), serve})
	}
	return append(all, request{api.Root + "/runs?open=true", c.l.Handler().ServeHTTP}, request{api.Root + "/runs?limit=50", c.l.Handler().ServeHTTP})
}

// count returns how many keys of the store a request reads.
func (c *crowd) count(r request) uint64 {
	c.t.Helper()
	before, w := c.l.Ledger.CountReads(), httptest.NewRecorder()
	r.serve(w, httptest.NewRequestWithContext(c.t.Context(), http.MethodGet, r.path, nil))
	if w.Code >= http.StatusInternalServerError {
		c.t.Errorf("GET %s: %d %s", r.path, w.Code, w.Body)
	}
	return c.l.Ledger.CountReads() - before
}

// TestRequestsReadTheSame: no read of the interface and no page looks through the whole store. Each reads as many keys among 2,400
// runs as among 600.
func TestRequestsReadTheSame(t *testing.T) {
	home := home.Home(t.TempDir())
	run := runWithActions(t, home)
	l := openLeader(t, home, nil, nil)
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	socket, err := net.Listen("unix", home.Socket()) // sprites are listed over it
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: l.Handler(), ReadHeaderTimeout: time.Minute}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(socket) }) // until it is closed
	defer served.Wait()
	defer server.Close()
	c := crowd{t: t, l: l}
	c.grow(600) // more than a page looks at
	few := map[string]uint64{}
	for _, r := range c.requests(run) {
		c.count(r) // what is kept in memory is read
		few[r.path] = c.count(r)
	}
	c.grow(2_400)
	for _, r := range c.requests(run) {
		if n := c.count(r); n > few[r.path]+100 { // the requests add some entries to the audit log
			t.Errorf("GET %s reads %d keys among 600 runs, and %d among 2,400", r.path, few[r.path], n)
		}
	}
	if few["/runs"] < 50 || few[api.Root+"/runs"] < 100 {
		t.Errorf("the lists of runs read %d and %d keys", few["/runs"], few[api.Root+"/runs"])
	}
}

// BenchmarkRequests reports how many keys requests read among few runs and among many, and how long they take.
func BenchmarkRequests(b *testing.B) {
	home := home.Home(b.TempDir())
	l := openLeader(b, home, nil, nil)
	defer func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	}()
	c := crowd{t: b, l: l}
	for _, runs := range []int{100, 100_000} {
		c.grow(runs)
		for _, r := range c.requests("run_00042") {
			name, ok := map[string]string{api.Root + "/runs": "runs", api.Root + "/approvals": "waiting", "/runs": "page"}[r.path]
			if !ok {
				continue
			}
			b.Run(fmt.Sprintf("%s/runs=%d", name, runs), func(b *testing.B) {
				for b.Loop() {
					c.count(r)
				}
				b.ReportMetric(float64(c.count(r)), "keys/op")
			})
		}
	}
}

// BenchmarkLongRun reports how long the page of a run with 10,000 facts takes.
func BenchmarkLongRun(b *testing.B) {
	l := openLeader(b, home.Home(b.TempDir()), nil, nil)
	defer func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	}()
	const id, calls = "run_long", 5_000
	if err := l.store.Create(b.Context(), store.RunRecord{ID: id, Created: time.Now(), Secret: make([]byte, 32), Program: []byte(packs), Options: []byte(`{}`)}); err != nil {
		b.Fatal(err)
	}
	entries := []lattice.Entry{{Run: id, Kind: lattice.EntryFact, Type: "Prepared", Body: []byte(`{"command_id":"e0.1.prepare"}`), Started: []string{"each", "each[0]/write"}}}
	for i := range calls {
		entries = append(entries,
			lattice.Entry{Run: id, Kind: lattice.EntryFact, Type: "BoundaryTaken", Body: fmt.Appendf(nil, `{"command_id":"e0.%d.checkpoint@each[%d]","pair":{"seq":%d,"sprite":"run-long","checkpoint_id":"v%d","durable":false}}`, 2*i, i, 2*i, i)},
			lattice.Entry{Run: id, Kind: lattice.EntryFact, Type: "CallFinished", Started: []string{fmt.Sprintf("each[%d]/+", i), fmt.Sprintf("each[%d]/write", i+1)},
				Body: fmt.Appendf(nil, `{"command_id":"e0.%d.call@each[%d]","call_id":"call_iuti5lqhcc2ceukvzwgxl3xbf4ccoml2","ok":true,"exit":0,"data":{"path":"a.txt","size":5,"sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","created":true,"mode":"0644"}}`, 2*i+1, i)})
	}
	entries = append(entries, lattice.Entry{Run: id, Kind: lattice.EntryState, Type: "State", Body: []byte(`{"status":"succeeded"}`), Flags: []string{lattice.FlagEnded}})
	if _, err := l.store.Append(b.Context(), id, 0, entries); err != nil {
		b.Fatal(err)
	}
	c := crowd{t: b, l: l}
	for _, r := range c.requests(id) {
		if r.path == "/runs/"+id {
			for b.Loop() {
				c.count(r)
			}
		}
	}
}
