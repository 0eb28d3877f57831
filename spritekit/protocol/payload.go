package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol/quote"
)

// Values of the closed lists of v1.
const (
	StatusSuccess = "success"
	StatusFailure = "failure"

	ScopeRepoSpecific    = "repo_specific"
	ScopeGlobalCandidate = "global_candidate"

	AdjustRuntimeInstall          = "runtime_install"
	AdjustRuntimeVersion          = "runtime_version_adjust"
	AdjustDependencyManagerSwitch = "dependency_manager_switch"
	AdjustAddPreinstallStep       = "add_preinstall_step"
	AdjustSmokeCommand            = "adjust_smoke_command"
	AdjustAddSystemPackage        = "add_system_package"
	AdjustEnableNetworkAccess     = "enable_network_access"
	AdjustEscalateToHuman         = "escalate_to_human"
)

// types holds the nine types of v1, frequent ones first.
var types = [...]Type{TypeInfo, TypePhaseStarted, TypePhaseFinished, TypeArtifact, TypeActionRequest, TypeWaiting, TypeCompleted,
	TypeError, TypeEnvironmentProposal}

// Known reports whether t is one of the nine types of v1.
func (t Type) Known() bool { return slices.Contains(types[:], t) }

// New returns an event with the payload p. The writer of the outbox sets ids and time.
func New(p Payload) (Event, error) {
	raw, err := marshal(p)
	if err != nil {
		return Event{}, fmt.Errorf("encode the payload of %s: %w", p.EventType(), err)
	}
	return Event{ProtocolVersion: Version, Type: p.EventType(), Payload: raw}, nil
}

// marshal is json.Marshal without HTML escaping.
func marshal(v any) (json.RawMessage, error) {
	switch p := v.(type) { // each call has these: encoding/json would build their encoders in each process
	case PhaseStarted:
		return append(encodePhase(p.Phase), '}'), nil
	case PhaseFinished:
		return append(strconv.AppendBool(append(encodePhase(p.Phase), `,"success":`...), p.Success), '}'), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func encodePhase(name string) []byte {
	return quote.Append([]byte(`{"phase":`), []byte(strings.ToValidUTF8(name, "\uFFFD")))
}

// Open returns the typed payload of e, or an error for an unknown type, another protocol version or a payload that
// breaks a rule. Members are matched by their exact names.
func (e Event) Open() (Payload, error) {
	if !e.Type.Known() {
		return nil, fmt.Errorf("open an event: unknown event_type %.64q", e.Type)
	}
	if e.ProtocolVersion != "" && e.ProtocolVersion != Version {
		return nil, fmt.Errorf("open an event: protocol_version is %.64q, only %s is understood", e.ProtocolVersion, Version)
	}
	payload, err := compactJSON(e.Payload)
	if err != nil {
		return nil, fmt.Errorf("open the payload of %s: %w", e.Type, err)
	}
	var r report
	p := openPayload(e.Type, payload, &r)
	if err := asError(r.problems); err != nil {
		return nil, fmt.Errorf("open the payload of %s: %w", e.Type, err)
	}
	return p, nil
}

func asError(problems []Problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, fmt.Errorf("%s %s", p.Pointer, p.Message))
	}
	return errors.Join(errs...)
}

// openPayload reads a valid, compact payload by the rules of t and reports the rules that it breaks.
func openPayload(t Type, raw json.RawMessage, r *report) Payload {
	f := fields{at: "/payload", report: r}
	if isObject(raw) {
		f.members = splitObject(raw, nil)
	}
	return readPayload(t, raw, f)
}

// readPayload is openPayload for a payload whose members are already in f.
func readPayload(t Type, raw json.RawMessage, f fields) Payload {
	if !isObject(raw) {
		f.report.addProblem(f.at, "must be an object")
		return nil
	}
	f.reportTwins()
	switch t {
	case TypeInfo:
		return Info{f.getString("message", required), f.getString("kind", optional), f.getObject("metadata", optional)}
	case TypePhaseStarted:
		return PhaseStarted{f.getString("phase", required)}
	case TypePhaseFinished:
		return PhaseFinished{f.getString("phase", required), f.getBool("success", required)}
	case TypeActionRequest:
		return openActionRequest(f)
	case TypeArtifact:
		return Artifact{f.getString("kind", required), f.getString("ref", optional), f.getString("url", optional), f.getObject("metadata", optional)}
	case TypeWaiting:
		return openWaiting(f)
	case TypeCompleted:
		return Completed{f.oneOf("status", StatusSuccess, StatusFailure), f.getString("summary", optional)}
	case TypeError:
		return Error{f.getString("message", required), f.getMember("details", optional)}
	case TypeEnvironmentProposal:
		return openProposal(f)
	}
	return nil // an unknown type has no rules
}

func openActionRequest(f fields) ActionRequest {
	a := ActionRequest{f.getString("action", required), f.getObject("parameters", required), f.getBool("blocking", optional)}
	if a.Parameters != nil {
		// A policy judges the parameters and another program acts on them: both must read the same.
		newFields(f.at+"/parameters", a.Parameters, f.report)
	}
	return a
}

func openWaiting(f fields) Waiting {
	w := Waiting{Reason: f.getString("reason", required), CheckpointID: f.getString("checkpoint_id", required)}
	if id := f.getMember("checkpoint_id", optional); isString(id) && isQuoted(id, "") {
		f.addProblem("checkpoint_id", "must not be empty: a checkpoint is taken before WAITING")
	}
	w.ExpectedInputs, w.ResumeAt = openExpected(f), openResumeAt(f)
	return w
}

func openResumeAt(f fields) string {
	quoted := f.quotedString("resume_at", optional)
	if quoted == nil {
		return ""
	}
	at := quote.Decode(quoted)
	if _, err := time.Parse(time.RFC3339, at); err != nil {
		f.addProblem("resume_at", "must be a time as in RFC 3339")
	}
	return at
}

func openExpected(f fields) map[string]string {
	raw := f.getObject("expected_inputs", optional)
	if raw == nil {
		return nil
	}
	in := newFields(f.at+"/expected_inputs", raw, f.report)
	expected := make(map[string]string, len(in.members))
	for _, m := range in.members {
		if !isString(m.value) || !IsInputType(quote.Decode(m.value)) {
			in.addProblem(m.name, "must be one of "+inputTypes)
			continue
		}
		expected[m.name] = quote.Decode(m.value)
	}
	return expected
}

const inputTypes = "string, integer, boolean, map, array<T>"

// IsInputType reports whether s is in the vocabulary of expected_inputs: string, integer, boolean, map, or array<T> of
// one of them, nested to any depth.
func IsInputType(s string) bool {
	for {
		inner, isArray := strings.CutPrefix(s, "array<")
		if !isArray {
			return s == "string" || s == "integer" || s == "boolean" || s == "map"
		}
		if s, isArray = strings.CutSuffix(inner, ">"); !isArray {
			return false
		}
	}
}

func openProposal(f fields) EnvironmentProposal {
	var p EnvironmentProposal
	if in, ok := f.objectFields("observed_failure"); ok {
		p.ObservedFailure = ObservedFailure{
			in.getString("phase", required), in.getInt("exit_code", required), in.getString("stderr_hint", required)}
	}
	if in, ok := f.objectFields("suggested_adjustment"); ok {
		p.SuggestedAdjustment = SuggestedAdjustment{in.oneOf("type",
			AdjustRuntimeInstall, AdjustRuntimeVersion, AdjustDependencyManagerSwitch, AdjustAddPreinstallStep,
			AdjustSmokeCommand, AdjustAddSystemPackage, AdjustEnableNetworkAccess, AdjustEscalateToHuman),
			in.getObject("details", required)}
	}
	p.Confidence = f.getFraction("confidence")
	p.Evidence = f.stringList("evidence")
	p.Scope = f.oneOf("scope", ScopeRepoSpecific, ScopeGlobalCandidate)
	return p
}
