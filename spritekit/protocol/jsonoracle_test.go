package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// oracle reads events of v1 with encoding/json, as strictly as Decode does: it is what Decode is measured against, in
// what it accepts (FuzzDecodeIsEncodingJSON) and in how long it takes (BenchmarkEventHeavy).
//
// encoding/json alone is not strict: it matches names whatever their case, lets the last of two equal members win in
// silence, and takes null for anything. So objects are split by a json.Decoder, which shows every member.
type oracle struct {
	event    protocol.Event
	pointers []string // of the broken rules
}

var errNoEvent = errors.New("no v1 event with a payload")

func (o *oracle) decode(line []byte) error {
	*o = oracle{}
	if !utf8.Valid(line) {
		line = []byte(string([]rune(string(line))))
		o.pointers = append(o.pointers, "")
	}
	var raw bytes.Buffer
	if json.Compact(&raw, line) != nil || raw.Bytes()[0] != '{' || depth(raw.Bytes()) > protocol.MaxDepth {
		return errNoEvent
	}
	e := &o.event
	e.Raw = raw.Bytes()
	root := o.split("", e.Raw)
	if isAbsent(root["event_type"]) || isAbsent(root["payload"]) {
		return errNoEvent
	}
	e.Payload = root["payload"]
	o.member("", root, "protocol_version", false, &e.ProtocolVersion)
	o.member("", root, "event_type", true, (*string)(&e.Type))
	o.member("", root, "event_id", false, &e.EventID)
	o.member("", root, "call_id", false, &e.CallID)
	o.member("", root, "sprite_id", false, &e.SpriteID)
	o.member("", root, "work_item_id", false, &e.WorkItemID)
	if o.member("", root, "timestamp", false, &e.Timestamp) {
		if _, err := protocol.ParseTime(e.Timestamp); err != nil {
			o.bad("", "timestamp")
		}
	}
	if v := root["protocol_version"]; !isAbsent(v) && e.ProtocolVersion != protocol.Version {
		if v[0] == '"' {
			o.bad("", "protocol_version")
		}
		return nil
	}
	o.payload()
	return nil
}

func (o *oracle) bad(at, name string) {
	o.pointers = append(o.pointers, at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
}

func isAbsent(v json.RawMessage) bool { return v == nil || string(v) == "null" }

// split reads the members of an object and reports those that are given twice.
func (o *oracle) split(at string, object []byte) map[string]json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		panic(err) // it was compacted before
	}
	m := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			panic(err)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			panic(err)
		}
		if _, twice := m[name.(string)]; twice {
			o.bad(at, name.(string))
		}
		m[name.(string)] = v
	}
	return m
}

// member decodes one member into a value of its type and reports it when it is none.
func (o *oracle) member(at string, m map[string]json.RawMessage, name string, need bool, into any) bool {
	v := m[name]
	if isAbsent(v) {
		if need {
			o.bad(at, name)
		}
		return false
	}
	if json.Unmarshal(v, into) != nil {
		o.bad(at, name)
		return false
	}
	return true
}

func (o *oracle) oneOf(at string, m map[string]json.RawMessage, name string, allowed ...string) {
	var s string
	if o.member(at, m, name, true, &s) && !slices.Contains(allowed, s) {
		o.bad(at, name)
	}
}

type object = map[string]json.RawMessage

func (o *oracle) payload() {
	const at = "/payload"
	if o.event.Payload[0] != '{' {
		o.bad("", "payload")
		return
	}
	m := o.split(at, o.event.Payload)
	var text string
	var yes bool
	var free object
	switch o.event.Type {
	case protocol.TypeInfo:
		o.member(at, m, "message", true, &text)
		o.member(at, m, "kind", false, &text)
		o.member(at, m, "metadata", false, &free)
	case protocol.TypePhaseStarted:
		o.member(at, m, "phase", true, &text)
	case protocol.TypePhaseFinished:
		o.member(at, m, "phase", true, &text)
		o.member(at, m, "success", true, &yes)
	case protocol.TypeActionRequest:
		o.member(at, m, "action", true, &text)
		if o.member(at, m, "parameters", true, &free) {
			o.split(at+"/parameters", m["parameters"])
		}
		o.member(at, m, "blocking", false, &yes)
	case protocol.TypeArtifact:
		o.member(at, m, "kind", true, &text)
		o.member(at, m, "ref", false, &text)
		o.member(at, m, "url", false, &text)
		o.member(at, m, "metadata", false, &free)
	case protocol.TypeWaiting:
		o.waiting(at, m)
	case protocol.TypeCompleted:
		o.oneOf(at, m, "status", protocol.StatusSuccess, protocol.StatusFailure)
		o.member(at, m, "summary", false, &text)
	case protocol.TypeError:
		o.member(at, m, "message", true, &text)
	case protocol.TypeEnvironmentProposal:
		o.proposal(at, m)
	}
}

func (o *oracle) waiting(at string, m object) {
	var text string
	var free object
	o.member(at, m, "reason", true, &text)
	if o.member(at, m, "checkpoint_id", true, &text) && text == "" {
		o.bad(at, "checkpoint_id")
	}
	if !o.member(at, m, "expected_inputs", false, &free) {
		return
	}
	for name, v := range o.split(at+"/expected_inputs", m["expected_inputs"]) {
		var kind string
		if v[0] != '"' || json.Unmarshal(v, &kind) != nil || !protocol.IsInputType(kind) {
			o.bad(at+"/expected_inputs", name)
		}
	}
}

func (o *oracle) proposal(at string, m object) {
	var text string
	var free object
	var number float64
	if o.member(at, m, "observed_failure", true, &free) {
		in, at := o.split(at+"/observed_failure", m["observed_failure"]), at+"/observed_failure"
		o.member(at, in, "phase", true, &text)
		if o.member(at, in, "exit_code", true, &number) && (number != math.Trunc(number) || math.Abs(number) > math.MaxInt32) {
			o.bad(at, "exit_code")
		}
		o.member(at, in, "stderr_hint", true, &text)
	}
	if o.member(at, m, "suggested_adjustment", true, &free) {
		in, at := o.split(at+"/suggested_adjustment", m["suggested_adjustment"]), at+"/suggested_adjustment"
		o.oneOf(at, in, "type", protocol.AdjustRuntimeInstall, protocol.AdjustRuntimeVersion, protocol.AdjustDependencyManagerSwitch,
			protocol.AdjustAddPreinstallStep, protocol.AdjustSmokeCommand, protocol.AdjustAddSystemPackage,
			protocol.AdjustEnableNetworkAccess, protocol.AdjustEscalateToHuman)
		o.member(at, in, "details", true, &free)
	}
	if o.member(at, m, "confidence", true, &number) && (number < 0 || number > 1) {
		o.bad(at, "confidence")
	}
	var evidence []*string
	if o.member(at, m, "evidence", true, &evidence) && slices.Contains(evidence, nil) {
		o.bad(at, "evidence")
	}
	o.oneOf(at, m, "scope", protocol.ScopeRepoSpecific, protocol.ScopeGlobalCandidate)
}

// depth is how deep arrays and objects nest in a valid text.
func depth(text []byte) (deepest int) {
	now, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// FuzzDecodeIsEncodingJSON: Decode accepts the same lines as encoding/json, reads the same values and finds the same
// broken rules.
func FuzzDecodeIsEncodingJSON(f *testing.F) {
	for _, line := range seedEvents(f) {
		f.Add(line)
		f.Add(bytes.ReplaceAll(line, []byte(`:`), []byte(" :\t")))
		f.Add(bytes.ReplaceAll(line, []byte(`e`), []byte(`\u0065`)))
		f.Add(bytes.ReplaceAll(line, []byte(`"payload":`), []byte(`"payload":{"x":1},"\u0070ayload":`)))
		f.Add(bytes.ReplaceAll(line, []byte(`}`), []byte(`,"p":null}`)))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, problems, ok := protocol.Decode(line)
		if valid := json.Valid(line) && depth(line) <= protocol.MaxDepth; ok && !valid || valid && !ok && isEvent(line) {
			t.Fatalf("Decode(%q): ok %v, but encoding/json says %v", line, ok, valid)
		}
		var want oracle
		if want.decode(line) != nil {
			return
		}
		if string(e.Raw) != string(want.event.Raw) || string(e.Payload) != string(want.event.Payload) || e.Legacy ||
			e.ProtocolVersion != want.event.ProtocolVersion || e.Type != want.event.Type || e.EventID != want.event.EventID ||
			e.CallID != want.event.CallID || e.SpriteID != want.event.SpriteID || e.WorkItemID != want.event.WorkItemID ||
			e.Timestamp != want.event.Timestamp {
			t.Fatalf("Decode(%q) = %+v, encoding/json has %+v", line, e, want.event)
		}
		if got := pointers(problems); len(problems) < 32 && !slices.Equal(got, set(want.pointers)) {
			t.Fatalf("Decode(%q): problems at %q, encoding/json has them at %q", line, got, want.pointers)
		}
	})
}

func pointers(problems []protocol.Problem) []string {
	var all []string
	for _, p := range problems {
		all = append(all, p.Pointer)
	}
	return set(all)
}

func set(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// isEvent reports whether a valid text is an object with one of the members that make an event.
func isEvent(text []byte) bool {
	var m object
	return json.Unmarshal(text, &m) == nil && !(isAbsent(m["event_type"]) && isAbsent(m["type"]))
}
