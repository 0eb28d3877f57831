package protocol

import (
	"encoding/json"
	"slices"
)

// The events of the time before v1 carry a lower-case "type" and all their members at the root:
//
//	{"type":"question","prompt":"Which?","choices":["a","b"],"default":"a"}
//
// This file turns them into v1 envelopes and is the only place that knows them. Members of the envelope pass as they
// came, those that v1 has a place for go there, the rest goes to the payload's metadata. Nothing is invented: what is
// absent in the input stays absent, but for the message that INFO requires, which falls back to the type's name.

// legacyForm says what becomes of one legacy type.
type legacyForm struct {
	becomes Type
	message string   // member that becomes INFO's message
	keep    []string // members of the payload besides message and metadata
}

func legacyFormOf(kind string) (form legacyForm, known bool) {
	switch kind {
	case "artifact":
		return legacyForm{TypeArtifact, "", []string{"kind", "ref", "url"}}, true
	case "completion":
		return legacyForm{TypeCompleted, "", []string{"status", "summary"}}, true
	case "progress", "assumption", "warning", "checkpoint":
		return legacyForm{TypeInfo, "message", nil}, true
	case "question":
		return legacyForm{TypeInfo, "prompt", nil}, true
	case "blocked":
		return legacyForm{TypeInfo, "reason", nil}, true
	}
	return legacyForm{TypeInfo, "message", nil}, false
}

// envelopeMembers are in the order in which writers write them.
var envelopeMembers = [...]string{"protocol_version", "event_type", "event_id", "call_id", "sprite_id", "work_item_id", "timestamp", "payload"}

func isEnvelopeMember(name string) bool { return slices.Contains(envelopeMembers[:], name) }

// normalise writes the v1 envelope of the legacy event raw.
func normalise(raw []byte, root fields) []byte {
	kind := root.str("type", required)
	form, known := legacyFormOf(kind)
	var payload objectWriter
	switch {
	case form.becomes == TypeInfo && known:
		form.writeInfo(&payload, root, kind)
		payload.metadata(root, form.places)
	case form.becomes == TypeInfo:
		form.writeInfo(&payload, root, kind)
		payload.add("metadata", raw)
	default:
		payload.addAll(root, form.keep)
		payload.metadata(root, form.places)
	}
	return envelope(root, string(form.becomes), payload.bytes())
}

// writeInfo writes message and kind.
func (form legacyForm) writeInfo(payload *objectWriter, root fields, kind string) {
	message := root.get(form.message, optional)
	if message == nil {
		message = appendQuoted(nil, []byte(kind))
	}
	payload.add("message", message)
	if kind != "" {
		payload.add("kind", appendQuoted(nil, []byte(kind)))
	}
}

// places reports whether a root member has a place of its own.
func (form legacyForm) places(name string) bool {
	switch name {
	case "type", "metadata":
		return true
	case "payload", "": // no member of a legacy event
		return false
	}
	return name == form.message || isEnvelopeMember(name) || slices.Contains(form.keep, name)
}

// gatherPayload writes the envelope of a v1 event without payload: the payload is the root's other members.
func gatherPayload(root fields) []byte {
	var payload objectWriter
	for _, m := range root.members {
		if !isEnvelopeMember(m.name) {
			payload.addRaw(m)
		}
	}
	return envelope(root, "", payload.bytes())
}

// envelope writes root's envelope members as they came, in the envelope's order, and payload. A legacy event gets its
// eventType.
func envelope(root fields, eventType string, payload []byte) []byte {
	var w objectWriter
	for _, name := range envelopeMembers {
		switch {
		case name == "payload":
			w.add(name, payload)
		case name == "event_type" && eventType != "":
			w.add(name, appendQuoted(nil, []byte(eventType)))
		default:
			w.addAll(root, []string{name})
		}
	}
	return w.bytes()
}

// objectWriter writes the members of one compact object.
type objectWriter struct{ out []byte }

func (w *objectWriter) next() {
	if w.out == nil {
		w.out = append(w.out, '{')
	} else {
		w.out = append(w.out, ',')
	}
}

func (w *objectWriter) add(name string, value []byte) {
	w.next()
	w.out = append(appendQuoted(w.out, []byte(name)), ':')
	w.out = append(w.out, value...)
}

func (w *objectWriter) addRaw(m member) {
	w.next()
	w.out = append(append(w.out, m.key...), ':')
	w.out = append(w.out, m.value...)
}

func (w *objectWriter) addAll(root fields, names []string) {
	for _, m := range root.members {
		if slices.Contains(names, m.name) {
			w.addRaw(m)
		}
	}
}

func (w *objectWriter) bytes() []byte {
	if w.out == nil {
		return []byte("{}")
	}
	return append(w.out, '}')
}

// metadata writes the root's metadata together with its members that have no place. A metadata that is no object, or
// whose members have the same names, becomes one member of the whole, so that nothing is lost.
func (w *objectWriter) metadata(root fields, placed func(name string) bool) {
	own := root.get("metadata", optional)
	var homeless []member
	for _, m := range root.members {
		if !placed(m.name) {
			homeless = append(homeless, m)
		}
	}
	if len(homeless) == 0 && own == nil {
		return
	}
	var all objectWriter
	switch ms, ok := mergeable(own, homeless); {
	case ok:
		for _, m := range ms {
			all.addRaw(m)
		}
	case own != nil:
		all.add("metadata", own)
	}
	for _, m := range homeless {
		all.addRaw(m)
	}
	w.add("metadata", all.bytes())
}

// mergeable splits own when it is an object that shares no name with others.
func mergeable(own json.RawMessage, others []member) ([]member, bool) {
	if !isObject(own) {
		return nil, false
	}
	taken := make(map[string]bool, len(others))
	for _, m := range others {
		taken[m.name] = true
	}
	ms := members(own, nil)
	for _, m := range ms {
		if taken[m.name] {
			return nil, false
		}
	}
	return ms, true
}
