package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/durable"
	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Of a run whose skills asked for something without waiting, its folder has
const (
	notedMark     = "noted"        // that there is such a request, so that others need not be looked through
	decisionsFile = "actions.json" // what people decided about them: a map of actionDecision by key
)

type actionDecision struct {
	Status   string    `json:"status"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Comments string    `json:"comments,omitempty"`
	Detail   string    `json:"detail,omitempty"`
}

// noter is the engine's log, which marks runs that note an action and says so in what logs prints.
type noter struct {
	engine.Log
	home    Home
	outputs *outputs
}

func (n noter) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	var noted []lattice.ActionNoted
	for _, e := range entries {
		if e.Kind != lattice.EntryFact || e.Type != (lattice.ActionNoted{}).FactType() {
			continue
		}
		if f, err := lattice.DecodeFact(e.Type, e.Body); err == nil {
			noted = append(noted, f.(lattice.ActionNoted))
		}
	}
	if noted != nil { // first: a mark without an action costs a look, an action without a mark would be forgotten
		dir := n.home.Run(run)
		err := errors.Join(os.MkdirAll(dir, 0o700), durable.SyncDir(filepath.Dir(dir)), durable.MakeEmpty(filepath.Join(dir, notedMark)))
		if slices.ContainsFunc(noted, func(f lattice.ActionNoted) bool { return f.Verdict == lattice.Ask }) {
			_, listErr := listOpen(n.home) // makes the index of a home that has none
			err = errors.Join(err, listErr, durable.MakeEmpty(filepath.Join(n.home.Noted(), run)))
		}
		if err != nil {
			return 0, fmt.Errorf("note an action of run %s: %w", run, err)
		}
	}
	seq, err := n.Log.Append(ctx, run, after, entries)
	if err == nil && noted != nil {
		out := n.outputs.open(run)
		for _, f := range noted {
			fmt.Fprintf(out, "%s %s: %s\n", f.Action.Name, f.Action.Parameters, f.Detail)
		}
	}
	return seq, err
}

// notes lists and decides about actions that nothing waits for (api.Actions).
type notes struct {
	store   *store.Store
	home    Home
	records *records
	actor   *action.Fulfiller

	mu sync.Mutex // held while an action is decided
}

// Actions lists them.
func (n *notes) Actions(_ context.Context, id string) ([]api.NotedAction, error) {
	if id != "*" {
		id, err := n.records.resolve(id)
		if err != nil {
			return nil, err
		}
		return n.of(id)
	}
	ids, err := listOpen(n.home)
	if err != nil {
		return nil, err
	}
	var runs []record
	for _, id := range ids {
		rec, err := n.records.loadBrief(id)
		if errors.Is(err, store.ErrNotFound) {
			continue // an older store was restored
		}
		if err != nil {
			return nil, err
		}
		runs = append(runs, rec)
	}
	slices.SortStableFunc(runs, func(a, b record) int { return b.Created.Compare(a.Created) })
	open := []api.NotedAction{}
	for _, r := range runs {
		all, err := n.of(r.ID)
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			if a.Status == api.ActionOpen {
				open = append(open, a)
			}
		}
	}
	return open, nil
}

// listOpen returns the ids of the runs that may have open actions. A home without the index gets it from the marks in the
// folders of its runs.
func listOpen(home Home) ([]string, error) {
	files, err := os.ReadDir(home.Noted())
	var ids []string
	for _, f := range files {
		ids = append(ids, f.Name())
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return ids, err
	}
	marks, err := filepath.Glob(filepath.Join(home.Run("*"), notedMark))
	if err != nil {
		return nil, fmt.Errorf("list noted actions: %w", err)
	}
	for _, mark := range marks {
		ids = append(ids, filepath.Base(filepath.Dir(mark)))
	}
	made, err := os.MkdirTemp(string(home), ".noted-*") // the index appears whole
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return ids, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list noted actions: %w", err)
	}
	defer os.RemoveAll(made) // gone when it was renamed
	for _, id := range ids {
		if err := os.WriteFile(filepath.Join(made, id), nil, 0o600); err != nil {
			return nil, fmt.Errorf("list noted actions: %w", err)
		}
	}
	if err := os.Rename(made, home.Noted()); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("list noted actions: %w", err)
	}
	return ids, nil
}

// of lists the actions of one run, each with its last state.
func (n *notes) of(id string) ([]api.NotedAction, error) {
	all := []api.NotedAction{}
	if _, err := os.Stat(filepath.Join(n.home.Run(id), notedMark)); err != nil {
		return all, nil
	}
	decisions, err := n.decisions(id)
	if err != nil {
		return nil, err
	}
	history, err := n.store.Load(id)
	if err != nil {
		return nil, fmt.Errorf("read facts of run %s: %w", id, err)
	}
	at := map[string]int{}
	for _, e := range history.Facts {
		if e.Type != (lattice.ActionNoted{}).FactType() {
			continue
		}
		f, err := lattice.DecodeFact(e.Type, e.Body)
		if err != nil {
			return nil, err
		}
		a := noted(id, e.At, f.(lattice.ActionNoted))
		if d, ok := decisions[a.Key]; ok {
			a.Status, a.By, a.DecidedAt, a.Comments, a.Detail = d.Status, d.By, &d.At, d.Comments, d.Detail
		}
		if i, known := at[a.Key]; known {
			all[i] = a
			continue
		}
		at[a.Key] = len(all)
		all = append(all, a)
	}
	return all, nil
}

func noted(id string, at time.Time, f lattice.ActionNoted) api.NotedAction {
	a := api.NotedAction{RunID: id, Key: f.Action.Key, Action: f.Action.Name, Parameters: f.Action.Parameters, Binding: f.Action.Binding,
		Sprite: f.Action.Sprite, Detail: f.Detail, At: at, Status: api.ActionForbidden}
	switch {
	case f.Verdict == lattice.Ask:
		a.Status, a.Detail = api.ActionOpen, ""
	case f.Verdict == lattice.Allow && f.Detail == "done":
		a.Status, a.Detail = api.ActionFulfilled, ""
	}
	return a
}

// DecideAction decides about an open one.
func (n *notes) DecideAction(ctx context.Context, id string, d api.ActionDecision) (api.NotedAction, error) {
	id, err := n.records.resolve(id)
	if err != nil {
		return api.NotedAction{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	a, err := n.find(id, d.Key)
	if err != nil {
		return a, err
	}
	want := map[lattice.Decision]string{lattice.Approve: api.ActionFulfilled, lattice.Reject: api.ActionRejected}[d.Decision]
	switch {
	case want == "":
		return a, fault.BadInput("bad_request", "an action is approved or rejected")
	case a.Status == want:
		return a, nil
	case a.Status != api.ActionOpen:
		return a, fault.Busy("already_decided", "%s is %s; nothing changed", a.Action, strings.TrimSpace(a.Status+" "+a.Detail)).WithHint("lattice action ls %s", id)
	}
	made := actionDecision{Status: want, By: d.By, At: time.Now().UTC(), Comments: d.Comments}
	if want == api.ActionFulfilled && a.Action == protocol.ActionPushBranch {
		_, err := n.actor.Do(ctx, lattice.Action{Key: a.Key, RunID: id, Sprite: a.Sprite, Name: a.Action, Parameters: a.Parameters, Binding: a.Binding})
		var no *lattice.Refusal
		if errors.As(err, &no) {
			return a, fault.Failed(no.Fault.Code, "%s", no.Fault.Message).WithHint("%s", no.Fault.Hint)
		}
		if err != nil {
			return a, fmt.Errorf("do %s of %s: %w", a.Action, id, err)
		}
	}
	decisions, err := n.decisions(id)
	if err != nil {
		return a, err
	}
	decisions[a.Key] = made
	if err := n.keep(id, decisions); err != nil {
		return a, StoreProblem(fmt.Errorf("record the decision: %w", err))
	}
	return n.find(id, a.Key)
}

func (n *notes) find(id, key string) (api.NotedAction, error) {
	all, err := n.of(id)
	if err != nil {
		return api.NotedAction{}, err
	}
	var found []api.NotedAction
	for _, a := range all {
		if a.Key == key {
			return a, nil
		}
		if strings.HasPrefix(a.Key, key) {
			found = append(found, a)
		}
	}
	switch len(found) {
	case 0:
		return api.NotedAction{}, fault.NotFound("action_not_found", "%s noted no action %q", id, key).WithHint("lattice action ls %s", id)
	case 1:
		return found[0], nil
	}
	return api.NotedAction{}, fault.BadInput("action_ambiguous", "%s noted %d actions that %q could mean", id, len(found), key).WithHint("lattice action ls %s", id)
}

func (n *notes) decisions(id string) (map[string]actionDecision, error) {
	out := map[string]actionDecision{}
	text, err := os.ReadFile(filepath.Join(n.home.Run(id), decisionsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("read the decisions about actions of %s: %w", id, err)
	}
	return out, nil
}

// keep replaces the file of decisions; it is on disk when keep returns.
func (n *notes) keep(id string, decisions map[string]actionDecision) error {
	text, err := json.Marshal(decisions)
	if err != nil {
		return err
	}
	dir := n.home.Run(id)
	f, err := os.CreateTemp(dir, decisionsFile+".new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone when it was renamed
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, decisionsFile)); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}
