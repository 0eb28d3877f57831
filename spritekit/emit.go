package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/spritekit/lattice/spritekit/checkpoint"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// runEmit appends one event to the outbox and prints it, as a skill would.
func (a app) runEmit(args []string) error {
	if len(args) == 0 {
		return usagef("name an event type, such as INFO")
	}
	raw, err := a.payloadOf(args[1:])
	if err != nil {
		return err
	}
	if !protocol.Type(args[0]).Known() {
		return skill.BadInput("", "there is no event type %.64q", args[0]).WithHint("spritekit emit --help lists the nine")
	}
	event := protocol.Event{ProtocolVersion: protocol.Version, Type: protocol.Type(args[0]), Payload: raw}
	payload, err := event.Open()
	if err != nil { // its sentence names the members as parts of an event
		_, problems, _ := strings.Cut(strings.ReplaceAll(err.Error(), "/payload", ""), ": ")
		return skill.BadInput("", "%s", strings.ReplaceAll(problems, "\n", "; ")).WithHint("spritekit emit --help shows what %s holds", args[0])
	}
	if err := onlyKnown(raw, payload); err != nil {
		return err
	}
	stamp := outbox.Stamp{SpriteID: a.env.SpriteID, WorkItemID: a.env.WorkItemID, CallID: cmp.Or(a.env.CallID, a.env.ParentCallID)}
	if a.env.CallID == "" && (a.env.ParentCallID != "" || a.env.AgentCallID != "") {
		if err := checkNotWaiting(payload); err != nil {
			return err
		}
		if stamp.CallID == "" { // the event is like one of a skill that the program calls
			stamp.CallID = skill.NewCallID(a.env, time.Now())
		}
	}
	if e, ok := payload.(protocol.Error); ok {
		payload = skill.WithPostMortem(context.Background(), a.env.Socket, e)
	}
	root, err := a.openWorkspace()
	if err != nil {
		return err
	}
	defer root.Close()
	log, err := outbox.Open(root, stamp, time.Now)
	if err != nil {
		return err
	}
	defer log.Close()
	event, err = log.Append(payload)
	if err != nil {
		return err
	}
	if err := log.Sync(); err != nil { // this process ends here: nothing else carries the event along
		return err
	}
	_, err = a.stdout.Write(append(append([]byte(protocol.Prefix), event.Raw...), '\n'))
	return err
}

// checkNotWaiting refuses events that ask for an answer. A program that a skill runs would not get it: the call waits only in the
// place of a skill.
func checkNotWaiting(payload protocol.Payload) error {
	request, asks := payload.(protocol.ActionRequest)
	if _, waits := payload.(protocol.Waiting); waits || asks && request.Blocking {
		return fault.Unsupported("cannot_wait", "a program that a skill runs cannot wait by %s", payload.EventType()).
			WithHint("call the skill that asks, such as ask.user or git.push, and the call waits in its place; a request without blocking needs no answer")
	}
	return nil
}

// onlyKnown refuses members that v1 has no place for: they would be lost, and are mostly slips of the pen.
func onlyKnown(raw json.RawMessage, payload protocol.Payload) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(reflect.New(reflect.TypeOf(payload)).Interface()); err != nil {
		return skill.BadInput("", "the payload of %s: %s", payload.EventType(), strings.TrimPrefix(err.Error(), "json: ")).
			WithHint("what has no member of its own goes into metadata, parameters or details")
	}
	return nil
}

// payloadOf builds a payload: key=value is a string, key:=json is JSON, --payload gives all of it, "-" from stdin.
func (a app) payloadOf(args []string) (json.RawMessage, error) {
	if len(args) > 0 && args[0] == "--payload" {
		if len(args) != 2 {
			return nil, usagef("--payload takes one JSON object and nothing else")
		}
		raw := json.RawMessage(args[1])
		if args[1] == "-" {
			var err error
			if raw, err = a.readInput(); err != nil {
				return nil, err
			}
			if len(raw) > skill.MaxInput {
				return nil, fault.Limit("input_too_large", "the payload on stdin has more than %d bytes", skill.MaxInput)
			}
		}
		if !json.Valid(raw) || !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
			return nil, skill.BadInput("", "--payload is not a JSON object")
		}
		return raw, nil
	}
	payload := map[string]json.RawMessage{}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, usagef("%q is not of the form key=value", arg)
		}
		literal := strings.HasSuffix(name, ":")
		name = strings.TrimSuffix(name, ":")
		if _, ok := payload[name]; ok {
			return nil, skill.BadInput("/"+name, "is given twice")
		}
		if literal {
			if !json.Valid([]byte(value)) {
				return nil, skill.BadInput("/"+name, "is no JSON")
			}
			payload[name] = json.RawMessage(value)
			continue
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		payload[name] = quoted
	}
	return json.Marshal(payload)
}

// hostFault gives the errors of the sprite's host their exit codes.
func hostFault(err error) error {
	if errors.Is(err, checkpoint.ErrUnavailable) {
		return fault.Unsupported("no_socket", "%v", err).
			WithHint("only a sprite with an api socket can checkpoint itself; LATTICE_SOCKET names it")
	}
	return fault.Failed("checkpoint_failed", "%v", err)
}

// emitHelp is the protocol on one page, for authors of scripts.
const emitHelp = `
The event is appended to .lattice/outbox.jsonl of the workspace and then written to stdout. It has the ids of the environment:
LATTICE_SPRITE_ID, LATTICE_WORK_ITEM_ID and LATTICE_CALL_ID. In a program that a skill runs, it is an event of the call of that
skill or of a nested one; an ACTION_REQUEST, ENVIRONMENT_PROPOSAL or ARTIFACT counts as one of the call, WAITING and blocking
requests are refused.
key=value is a text, key:=json is JSON. --payload takes all members as one object; --payload - reads it from stdin.
A payload that is too large for a line is moved to a file of the workspace, and the event names the file.

Event types, with their members (? = optional):
  INFO                  message kind? metadata?
  PHASE_STARTED         phase
  PHASE_FINISHED        phase success
  ARTIFACT              kind ref? url? metadata?
  ACTION_REQUEST        action parameters blocking?
  WAITING               reason checkpoint_id expected_inputs?     needs a checkpoint: spritekit checkpoint create
  COMPLETED             status (success, failure) summary?
  ERROR                 message details?                          a checkpoint is taken if possible, and named in details
  ENVIRONMENT_PROPOSAL  observed_failure {phase exit_code stderr_hint} suggested_adjustment {type details} confidence
                        evidence scope (repo_specific, global_candidate)

More examples:
  spritekit emit ARTIFACT kind=file ref=report.html metadata:='{"size":120}'
  spritekit emit PHASE_FINISHED phase=build success:=true
  spritekit emit ACTION_REQUEST action=NOTIFY_USER parameters:='{"level":"info","title":"done","body":""}'
  generate-report | spritekit emit INFO --payload -
`
