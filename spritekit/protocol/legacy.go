package protocol

import (
	"encoding/json"
	"slices"

	"github.com/spritekit/lattice/spritekit/protocol/quote"
)

// Legacy events have a lower-case "type" and all their members at the root:
//
//	{"type":"question","prompt":"Which?","choices":["a","b"],"default":"a"}
//
// Only this file knows them; it converts them to v1 envelopes. Members of the envelope are copied unchanged, members that
// have a place in v1 are moved there, and the others become metadata of the payload. Absent members stay absent, except
// for the message that INFO requires, which defaults to the name of the type.

// legacyForm describes the conversion of one legacy type.
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

// convertLegacy returns the v1 envelope of the legacy event raw.
func convertLegacy(raw []byte, root fields) []byte {
	kind := root.getString("type", required)
	form, known := legacyFormOf(kind)
	var payload objectWriter
	switch {
	case form.becomes == TypeInfo && known:
		form.writeInfo(&payload, root, kind)
		payload.writeMetadata(root, form.hasPlace)
	case form.becomes == TypeInfo:
		form.writeInfo(&payload, root, kind)
		payload.addMember("metadata", raw)
	default:
		payload.addAll(root, form.keep)
		payload.writeMetadata(root, form.hasPlace)
	}
	return writeEnvelope(root, string(form.becomes), payload.bytes())
}

// writeInfo writes message and kind.
func (form legacyForm) writeInfo(payload *objectWriter, root fields, kind string) {
	message := root.getMember(form.message, optional)
	if message == nil {
		message = quote.Append(nil, []byte(kind))
	}
	payload.addMember("message", message)
	if kind != "" {
		payload.addMember("kind", quote.Append(nil, []byte(kind)))
	}
}

// hasPlace reports whether a root member has a place in v1.
func (form legacyForm) hasPlace(name string) bool {
	switch name {
	case "type", "metadata":
		return true
	case "payload", "": // no member of a legacy event
		return false
	}
	return name == form.message || isEnvelopeMember(name) || slices.Contains(form.keep, name)
}

// gatherPayload returns the envelope of a v1 event that has no payload: the other members of the root become its payload.
func gatherPayload(root fields) []byte {
	var payload objectWriter
	for _, m := range root.members {
		if !isEnvelopeMember(m.name) {
			payload.addRaw(m)
		}
	}
	return writeEnvelope(root, "", payload.bytes())
}

// writeEnvelope returns an envelope with the envelope members of root, unchanged and in the order of the envelope, and
// payload. eventType is the event_type of a legacy event.
func writeEnvelope(root fields, eventType string, payload []byte) []byte {
	var w objectWriter
	for _, name := range envelopeMembers {
		switch {
		case name == "payload":
			w.addMember(name, payload)
		case name == "event_type" && eventType != "":
			w.addMember(name, quote.Append(nil, []byte(eventType)))
		default:
			w.addAll(root, []string{name})
		}
	}
	return w.bytes()
}

// objectWriter writes the members of one compact object.
type objectWriter struct{ out []byte }

func (w *objectWriter) writeComma() {
	if w.out == nil {
		w.out = append(w.out, '{')
	} else {
		w.out = append(w.out, ',')
	}
}

func (w *objectWriter) addMember(name string, value []byte) {
	w.writeComma()
	w.out = append(quote.Append(w.out, []byte(name)), ':')
	w.out = append(w.out, value...)
}

func (w *objectWriter) addRaw(m member) {
	w.writeComma()
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

// writeMetadata writes the metadata of root together with the members of root that have no place in v1. If metadata is
// not an object, or has a member of the same name as another, it becomes a member itself, so that nothing is lost.
func (w *objectWriter) writeMetadata(root fields, placed func(name string) bool) {
	own := root.getMember("metadata", optional)
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
	switch ms, ok := splitMergeable(own, homeless); {
	case ok:
		for _, m := range ms {
			all.addRaw(m)
		}
	case own != nil:
		all.addMember("metadata", own)
	}
	for _, m := range homeless {
		all.addRaw(m)
	}
	w.addMember("metadata", all.bytes())
}

// splitMergeable returns the members of own if it is an object that has no name in common with others.
func splitMergeable(own json.RawMessage, others []member) ([]member, bool) {
	if !isObject(own) {
		return nil, false
	}
	taken := make(map[string]bool, len(others))
	for _, m := range others {
		taken[m.name] = true
	}
	ms := splitObject(own, nil)
	for _, m := range ms {
		if taken[m.name] {
			return nil, false
		}
	}
	return ms, true
}
