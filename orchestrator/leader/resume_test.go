package leader_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/stream"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
)

// change is an event of all changes.
type change struct {
	ID, Type string
	RunID    string `json:"run_id"`
	Payload  struct {
		LastSeq lattice.Seq `json:"last_seq"` // of a view
		Seq     uint64      // of an entry of the audit log
	}
}

// reader follows all changes over connections that break.
type reader struct {
	last  string // the id of the last event
	ids   map[string]bool
	runs  map[string]lattice.Seq // the last change of each run
	audit []uint64
}

// read connects behind the last event, reads n events, or those until ctx ends, and breaks the connection.
func (r *reader) read(ctx context.Context, t *testing.T, server *httptest.Server, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL+api.Root+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Last-Event-ID", r.last)
	resp, err := server.Client().Do(req)
	if err != nil {
		if ctx.Err() == nil {
			t.Fatal(err)
		}
		return
	}
	defer resp.Body.Close()
	lines, c := bufio.NewScanner(resp.Body), change{}
	for lines.Buffer(nil, 1<<20); n > 0 && lines.Scan(); {
		switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
		case "id":
			c.ID = value
		case "data":
			if err := json.Unmarshal([]byte(value), &c); err != nil {
				t.Fatalf("%.200s: %v", value, err)
			}
		case "":
			if c.Type != "" {
				r.take(t, c)
				n--
			}
			c = change{}
		}
	}
}

func (r *reader) take(t *testing.T, c change) {
	t.Helper()
	switch {
	case c.Type == stream.Run && c.ID == "": // it is driven, or not any more
		if c.Payload.LastSeq != r.runs[c.RunID] && c.Payload.LastSeq != 0 {
			t.Errorf("a change of %s at %d has no id", c.RunID, c.Payload.LastSeq)
		}
		return
	case c.Type == stream.Run:
		if c.Payload.LastSeq <= r.runs[c.RunID] {
			t.Errorf("the change of %s at %d came behind %d, again or late", c.RunID, c.Payload.LastSeq, r.runs[c.RunID])
		}
		r.runs[c.RunID] = c.Payload.LastSeq
	default:
		if n := len(r.audit); n > 0 && c.Payload.Seq <= r.audit[n-1] {
			t.Errorf("entry %d of the audit log came behind %d, again or late", c.Payload.Seq, r.audit[n-1])
		}
		r.audit = append(r.audit, c.Payload.Seq)
	}
	if c.ID == "" || r.ids[c.ID] {
		t.Errorf("the id %q of a change of type %s is empty or came twice", c.ID, c.Type)
	}
	r.last, r.ids[c.ID] = c.ID, true
}

// TestChangesOverBrokenConnections: while runs begin, wait, go on and end and intents are created, a reader whose connection breaks
// after every few events gets the changes of each run in order, the last one among them, and each entry of the audit log, all once. So
// it does after another leader took over.
func TestChangesOverBrokenConnections(t *testing.T) {
	at := home.Home(t.TempDir())
	l, end := lead(t, at)
	server := httptest.NewServer(l.Handler())
	r := &reader{ids: map[string]bool{}, runs: map[string]lattice.Seq{}}
	r.last = "0.0"
	var traffic sync.WaitGroup
	for n := range 4 {
		traffic.Go(func() {
			for i := range 6 {
				v, err := l.Start(t.Context(), api.RunRequest{Flow: []byte(askTwice)})
				if err != nil {
					t.Error(err)
					return
				}
				for range 2 {
					watch(t, l, v.RunID, "")
					if _, err := l.Decide(t.Context(), v.RunID, api.DecideRequest{Decision: lattice.Approve, By: "p"}); err != nil {
						t.Error(err)
					}
				}
				watch(t, l, v.RunID, "")
				if resp := send(t, server, "POST", api.Root+"/intents", fmt.Sprintf(`{"kind":"sprite_task_exec","key":"k%d-%d","input":{"command":"true"}}`, n, i)); resp.StatusCode != http.StatusOK {
					t.Errorf("create an intent: %s", resp.Status)
				}
			}
		})
	}
	going, over := context.WithCancel(t.Context())
	go func() { traffic.Wait(); over() }()
	for n := 0; going.Err() == nil; n++ {
		r.read(going, t, server, 1+n%4)
	}
	check := func(l *leader.Leader, server *httptest.Server) {
		t.Helper()
		want := map[string]lattice.Seq{}
		runs, err := l.Runs(t.Context(), api.RunList{})
		for _, v := range runs {
			want[v.RunID] = v.LastSeq
		}
		var log []uint64
		if err == nil {
			err = l.AuditEntries(t.Context(), "", 0, func(e audit.Entry) error {
				if stream.OfAudit(e).Type != "" {
					log = append(log, e.Seq)
				}
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		for !maps.Equal(r.runs, want) || len(r.audit) < len(log) {
			before := len(r.ids)
			if r.read(t.Context(), t, server, 1); t.Failed() || t.Context().Err() != nil {
				t.Fatalf("runs %v, want %v; audit log %v, want %v; %d events", r.runs, want, r.audit, log, before)
			}
		}
		if fmt.Sprint(r.audit) != fmt.Sprint(log) {
			t.Errorf("entries %v of the audit log came, want %v", r.audit, log)
		}
	}
	check(l, server)
	server.CloseClientConnections()
	server.Close()
	end()

	l, _ = lead(t, at)
	server = httptest.NewServer(l.Handler())
	t.Cleanup(server.Close)
	watch(t, l, start(t, l, askTwice, ""), "")
	check(l, server)
}
