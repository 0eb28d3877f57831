package driver

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/engine/machine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// findNoted returns the last record of a request that an attempt made without waiting, before the power was lost.
func findNoted(records []lattice.Record, call lattice.Call, req protocol.ActionRequest) (lattice.ActionNoted, bool) {
	want, err := actionKey(lattice.Action{Name: req.Action, Parameters: req.Parameters})
	if err != nil {
		return lattice.ActionNoted{}, false
	}
	for _, r := range slices.Backward(records) {
		if r.Noted == nil || r.Of != runstate.AttemptOf(&call) {
			continue
		}
		if key, err := actionKey(lattice.Action{Name: r.Noted.Action.Name, Parameters: r.Noted.Action.Parameters}); err == nil && key == want {
			return *r.Noted, true
		}
	}
	return lattice.ActionNoted{}, false
}

// actionKey is the fulfilment key of DESIGN 20: the bundle's digest stays out, because a bundle made again differs in
// bytes and not in meaning.
func actionKey(a lattice.Action) (string, error) {
	parameters, err := machine.DecodeObject(a.Parameters)
	if err != nil {
		return "", err
	}
	delete(parameters, "sha256")
	also, _ := parameters["also"].([]any)
	for _, item := range also {
		if members, ok := item.(map[string]any); ok {
			delete(members, "sha256")
		}
	}
	raw, err := expr.Marshal(parameters)
	if err != nil {
		return "", err
	}
	return "act_" + lattice.DerivedKey(a.CallID, a.Name, string(raw)), nil
}

// conclusionEntry is the event that ends the work item, committed with the fact that ended the run (DESIGN 11).
func conclusionEntry(s runstate.State, at time.Time) (lattice.Entry, error) {
	var payload protocol.Payload
	switch {
	case s.Status == lattice.Succeeded:
		payload = protocol.Completed{Status: "success", Summary: fmt.Sprintf("run %s succeeded", s.RunID)}
	case s.Status == lattice.Canceled:
		payload = protocol.Completed{Status: "failure", Summary: fmt.Sprintf("run %s was %s", s.RunID, s.Failure.Message)}
	default:
		details, err := expr.Marshal(s.Failure)
		if err != nil {
			return lattice.Entry{}, fmt.Errorf("encode failure: %w", err)
		}
		payload = protocol.Error{Message: s.Failure.Message, Details: details}
	}
	return ownEntry(s, payload, "end", fmt.Sprintf("end/%d", s.Epoch), at)
}

// emittedEntries are the events of the EMIT nodes of one step, committed with it.
func emittedEntries(s runstate.State, at time.Time) ([]lattice.Entry, error) {
	var out []lattice.Entry
	for _, e := range s.Emitted {
		raw, err := expr.Marshal(e.Info)
		if err != nil {
			return nil, fmt.Errorf("encode event of %s: %w", e.Node, err)
		}
		var info protocol.Info
		if err := json.Unmarshal(raw, &info); err != nil {
			return nil, fmt.Errorf("event of %s: %w", e.Node, err)
		}
		entry, err := ownEntry(s, info, e.Key, "emit/"+e.Key, at)
		if err != nil {
			return nil, err
		}
		out = append(out, entry)
	}
	return out, nil
}

// ownEntry is an event that the orchestrator itself records for the run's work item. id tells it from the run's others.
func ownEntry(s runstate.State, payload protocol.Payload, id, dedupe string, at time.Time) (lattice.Entry, error) {
	body, err := expr.Marshal(payload)
	if err != nil {
		return lattice.Entry{}, fmt.Errorf("encode %s: %w", payload.EventType(), err)
	}
	sum := sha256.Sum256([]byte(lattice.DerivedKey(s.RunID, fmt.Sprint(s.Epoch), id)))
	ulid, err := ulid.New(ulid.Timestamp(at), bytes.NewReader(sum[:]))
	if err != nil {
		return lattice.Entry{}, fmt.Errorf("make event id: %w", err)
	}
	sprite := cmp.Or(s.Sprite, "lattice")
	work := cmp.Or(s.WorkItem, s.RunID)
	event := protocol.Event{
		ProtocolVersion: "v1", Type: payload.EventType(), EventID: ulid.String(), SpriteID: sprite, WorkItemID: work,
		Timestamp: formatTime(at), Payload: json.RawMessage(body),
	}
	raw, err := expr.Marshal(event)
	if err != nil {
		return lattice.Entry{}, fmt.Errorf("encode %s: %w", event.Type, err)
	}
	return lattice.Entry{
		Run: s.RunID, At: at, Kind: lattice.EntryEvent, Type: string(event.Type), Body: raw,
		Dedupe: dedupe, Flags: []string{"orchestrator"},
	}, nil
}
