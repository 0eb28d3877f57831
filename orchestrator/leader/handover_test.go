package leader_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// steps has a call that takes a moment, and one more.
const steps = `{"execir_version":"1.0","id":"steps","tools":["test.run","fs.write"],"entry_node":"t","nodes":[
	{"id":"t","op":"TOOL_CALL","tool":"test.run","args":{"command":"sleep 0.3"}},
	{"id":"w","op":"TOOL_CALL","tool":"fs.write","args":{"path":"f","content":"x"}}],"edges":[{"from":"t","to":"w"}]}`

// A leader that cannot come to rest in time goes on as if nobody had asked.
func TestHandOverThatIsGivenUp(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	id := start(t, l, sleep, "")
	watch(t, l, id, "PHASE_STARTED")
	_, err := l.HandOver(t.Context(), api.HandoverRequest{Version: "next", WaitS: 0.02})
	if refusal(err) != "leader_busy" {
		t.Fatalf("HandOver = %v, want leader_busy", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.HandOver(ctx, api.HandoverRequest{}); err == nil {
		t.Fatal("HandOver of an asker who is gone succeeds")
	}
	if v, err := l.Run(t.Context(), id); err != nil || !v.Driving {
		t.Errorf("after that the run is %+v, %v", v, err)
	}
	select {
	case <-l.HandedOver():
		t.Error("the leadership is handed over")
	default:
	}
	two := start(t, l, ask, "") // new work is taken
	if v := watch(t, l, two, ""); v.Status != lattice.Waiting {
		t.Errorf("a run started after that is %s", v.Status)
	}
}

// A request for the lead that does not say who leads next changes nothing.
func TestHandOverToNobody(t *testing.T) {
	home := home.Home(t.TempDir())
	l, _ := lead(t, home)
	hc := api.HTTPClient(home.Socket())
	defer hc.CloseIdleConnections()
	for _, body := range []string{"null", "{}", "", `{"api":null,"pid":null}`, "[]", "7"} {
		resp, err := hc.Post(api.Base+"/v1/lattice/handover", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Errorf("a handover to %q is granted", body)
		}
	}
	if l.Hello().Ending {
		t.Error("the leader ends")
	}
}

// What is begun is finished, the rest is left to the next leader, with the values that are in no store.
func TestHandOver(t *testing.T) {
	home := home.Home(t.TempDir())
	l, end := lead(t, home)
	v, err := l.Start(t.Context(), api.RunRequest{Flow: []byte(steps), Detach: true, Options: api.Options{AgentEnv: []string{"KEY"}, Values: api.Values{Secrets: map[string]string{"KEY": "v=1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	followed := start(t, l, steps, "")
	watch(t, l, v.RunID, "PHASE_STARTED")
	client := api.NewClient(home.Socket())
	defer client.Close()
	var group sync.WaitGroup
	group.Go(func() { // who follows is not told that the run is over
		if err := client.Watch(t.Context(), v.RunID, 0, func(api.WatchLine) error { return nil }); !errors.Is(err, api.ErrGone) {
			t.Errorf("Watch = %v, want ErrGone", err)
		}
	})
	handed, err := l.HandOver(t.Context(), api.HandoverRequest{Version: "next"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]api.HandedRun{{RunID: v.RunID, Values: api.Values{Secrets: map[string]string{"KEY": "v=1"}}}}, handed.Runs); diff != "" {
		t.Errorf("handed over (-want +got):\n%s", diff)
	}
	<-l.HandedOver()
	if _, err := l.Start(t.Context(), api.RunRequest{Flow: []byte(ask)}); refusal(err) != "leader_ending" {
		t.Errorf("Start after that = %v", err)
	}
	if !l.Hello().Ending {
		t.Error("it does not say that it is ending")
	}
	group.Wait()
	end()

	l, _ = lead(t, home)
	for _, id := range []string{v.RunID, followed} {
		if _, err := l.Drive(t.Context(), id, api.DriveRequest{}); err != nil {
			t.Fatal(err)
		}
		if v := watch(t, l, id, ""); v.Status != lattice.Succeeded {
			t.Errorf("%s is %s: %+v", id, v.Status, v.Error)
		}
		begun := 0
		err := l.Entries(t.Context(), id, 0, func(e lattice.Entry) error {
			if e.Type == "PHASE_STARTED" {
				begun++
			}
			return nil
		})
		if err != nil || begun != 2 {
			t.Errorf("%s began %d calls, %v; want each of two once", id, begun, err)
		}
	}
}

// Leave is for a process whose own work is done: it does not wait for ever for the work of others.
func TestLeave(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	if left := l.Leave(t.Context()); left != nil {
		t.Errorf("Leave without runs = %v", left)
	}
	v, err := l.Start(t.Context(), api.RunRequest{Flow: []byte(sleep), Detach: true})
	if err != nil {
		t.Fatal(err)
	}
	watch(t, l, v.RunID, "PHASE_STARTED")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if left := l.Leave(ctx); len(left) != 1 || left[0].RunID != v.RunID {
		t.Errorf("Leave = %v, want %s", left, v.RunID)
	}
}

// drowsy has sprites fall asleep as soon as nobody uses them.
func drowsy(cfg *leader.Config) { cfg.WarmAfter = 100 * time.Millisecond }

func TestRetire(t *testing.T) {
	home := home.Home(t.TempDir())
	l, end := lead(t, home, drowsy)
	id := start(t, l, sleep, "")
	watch(t, l, id, "PHASE_STARTED")
	retired := make(chan error, 1)
	go func() { retired <- l.Retire(t.Context(), time.Millisecond) }()
	if v, err := l.Run(t.Context(), id); err != nil || !v.Driving {
		t.Fatalf("the run is %+v, %v", v, err)
	}
	select {
	case err := <-retired:
		t.Fatalf("a leader that drives retired: %v", err)
	default:
	}
	if _, err := l.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := <-retired; err != nil {
		t.Fatalf("Retire = %v", err)
	}
	if _, err := l.Drive(t.Context(), id, api.DriveRequest{}); refusal(err) != "leader_ending" {
		t.Errorf("Drive after that = %v", err)
	}
	end()

	// A wait with a timer keeps it, and a request that lasts.
	l, end = lead(t, home)
	defer end()
	timed := start(t, l, `{"execir_version":"1.0","entry_node":"h","nodes":[{"id":"h","op":"HUMAN","prompt":"Go on?","timeout_s":3600}],"edges":[]}`, "")
	watch(t, l, timed, "")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { retired <- l.Retire(ctx, time.Millisecond) }()
	client := api.NewClient(home.Socket())
	defer client.Close()
	if _, err := client.Run(t.Context(), timed); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-retired; !errors.Is(err, context.Canceled) {
		t.Errorf("Retire beside a timer = %v", err)
	}
}

// A command that goes on in a sprite keeps the leader, whether or not somebody is attached to it.
func TestRetireWaitsForSprites(t *testing.T) {
	home := home.Home(t.TempDir())
	l, _ := lead(t, home, drowsy)
	hc := api.HTTPClient(home.Socket())
	defer hc.CloseIdleConnections()
	client := sprites.New(api.Base, "", hc)
	if _, err := client.Create(t.Context(), sprites.Create{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	session := make(chan string, 1)
	detached, cut := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		_, _ = client.Exec(detached, "box", sprites.Exec{
			Cmd: []string{"sleep", "600"}, MaxRunAfterDisconnect: time.Hour, OnSession: func(id string) { session <- id }, Stdout: io.Discard, Stderr: io.Discard,
		})
	})
	id := <-session
	cut()
	group.Wait()
	retired := make(chan error, 1)
	go func() { retired <- l.Retire(t.Context(), 5*time.Millisecond) }()
	if all, err := client.Sessions(t.Context(), "box"); err != nil || len(all) != 1 {
		t.Fatalf("sessions = %v, %v", all, err)
	}
	select {
	case err := <-retired:
		t.Fatalf("a leader whose sprite works retired: %v", err)
	case <-time.After(50 * time.Millisecond): // a chance to do it wrong
	}
	if err := client.Kill(t.Context(), "box", id, "KILL"); err != nil {
		t.Fatal(err)
	}
	if err := <-retired; err != nil {
		t.Errorf("Retire = %v", err)
	}
}

// Starting twice with one key is starting once, for askers who have not heard of the first time.
func TestStartTwice(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	req := api.RunRequest{Flow: []byte(ask), Key: "abcdefghij234567"}
	one, err := l.Start(t.Context(), req)
	if err != nil || one.RunID != "run_abcdefghij234567" {
		t.Fatalf("Start = %+v, %v", one, err)
	}
	two, err := l.Start(t.Context(), req)
	if err != nil || two.RunID != one.RunID {
		t.Errorf("Start again = %+v, %v", two, err)
	}
	if all, err := l.Runs(t.Context(), api.RunList{}); err != nil || len(all) != 1 {
		t.Errorf("there are %d runs, %v", len(all), err)
	}
	for _, key := range []string{"short", "abcdefghij23456/", "ABCDEFGHIJ234567"} {
		req.Key = key
		if _, err := l.Start(t.Context(), req); refusal(err) != "bad_request" {
			t.Errorf("Start with key %q = %v", key, err)
		}
	}
}

// Of opposite decisions at the same time one counts, and every client of the other side hears which.
func TestDecideAgainstEachOther(t *testing.T) {
	home := home.Home(t.TempDir())
	l, _ := lead(t, home)
	id := start(t, l, ask, "")
	watch(t, l, id, "")
	var mu sync.Mutex
	said := map[string]int{}
	var group sync.WaitGroup
	for i := range 12 {
		decision := []lattice.Decision{lattice.Approve, lattice.Reject}[i%2]
		group.Go(func() {
			client := api.NewClient(home.Socket())
			defer client.Close()
			reply, err := client.Decide(t.Context(), id, api.DecideRequest{Decision: decision, By: "p"})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				said[string(decision)+" "+refusal(err)]++
			case reply.Duplicate:
				said[string(decision)+" again"]++
			default:
				said[string(decision)]++
			}
		})
	}
	group.Wait()
	won := lattice.Approve
	if said["reject"] == 1 {
		won = lattice.Reject
	}
	lost := map[lattice.Decision]string{lattice.Approve: "reject", lattice.Reject: "approve"}[won]
	want := map[string]int{string(won): 1, string(won) + " again": 5, lost + " already_decided": 6}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("replies (-want +got):\n%s", diff)
	}
}

// A rewind that was asked for before another one is refused.
func TestRewindOfAnotherEpoch(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	id := start(t, l, ask, "")
	watch(t, l, id, "")
	for epoch := range 2 {
		if _, err := l.Rewind(t.Context(), id, api.RewindRequest{To: "ask", Epoch: epoch}); err != nil {
			t.Fatal(err)
		}
		watch(t, l, id, "")
	}
	if _, err := l.Rewind(t.Context(), id, api.RewindRequest{To: "ask"}); refusal(err) != "rewound_meanwhile" {
		t.Errorf("Rewind = %v, want rewound_meanwhile", err)
	}
}
