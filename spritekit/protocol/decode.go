package protocol

import "github.com/spritekit/lattice/spritekit/protocol/quote"

// Decode reads one envelope, v1 or legacy. ok is false if line is not a JSON object or has neither event_type nor type;
// such a line is ordinary output. An event that breaks a rule is ok and has problems: it is kept, but must not be acted
// on. A member that is absent (or null) is a problem only if the rules of the payload require it; the reader fills in
// sprite, work item and time. Invalid UTF-8 is replaced by U+FFFD.
func Decode(line []byte) (e Event, problems []Problem, ok bool) {
	var d decoder
	problems, why := d.decode(line, &e)
	return e, problems, why == ""
}

// decoder decodes events and reuses its buffers.
type decoder struct {
	json   jsonReader
	report report
}

// decode decodes line into the zero event e and returns the rules that it breaks. If line is not an event, decode returns
// the reason and leaves e zero.
func (d *decoder) decode(line []byte, e *Event) (problems []Problem, why string) {
	d.report.problems = nil
	text, replaced := toUTF8(line)
	if replaced {
		d.report.addProblem("", "contains invalid UTF-8, which was replaced by U+FFFD")
	} else {
		text = append([]byte(nil), line...)
	}
	if d.json.root == nil {
		d.json.root, d.json.payload = make([]member, 0, 8), make([]member, 0, 4) // enough for most events
	}
	defer d.shrinkBuffers()
	raw, err := d.json.read(text)
	if err != nil {
		return nil, "not readable as JSON: " + err.Error()
	}
	if !isObject(raw) {
		return nil, "a JSON value that is not an object"
	}
	root := fields{members: d.json.root, report: &d.report}
	root.reportTwins()
	eventType, legacyType := root.getMember("event_type", optional), root.getMember("type", optional)
	switch {
	case eventType != nil && root.getMember("payload", optional) != nil: // regular v1
		e.Raw = raw
	case eventType != nil:
		e.Raw = gatherPayload(root)
	case legacyType != nil:
		e.Raw, e.Legacy = convertLegacy(raw, root), true
	default:
		return nil, "an object with neither event_type nor type"
	}
	if &e.Raw[0] != &raw[0] { // it was rewritten
		d.json.root = splitObject(e.Raw, d.json.root[:0])
		root.members = d.json.root
		d.json.payload = splitObject(root.getMember("payload", required), d.json.payload[:0])
	}
	e.readEnvelope(root)
	if e.followsOurRules(root) {
		readPayload(e.Type, e.Payload, fields{"/payload", d.json.payload, &d.report, true})
	}
	return d.report.problems, ""
}

// shrinkBuffers releases buffers that an unusually large event has grown.
func (d *decoder) shrinkBuffers() {
	const usual = 128
	if cap(d.json.root)+cap(d.json.payload) > usual {
		d.json = jsonReader{}
	}
}

// readEnvelope sets the named fields of e. Their strings share one allocation.
func (e *Event) readEnvelope(root fields) {
	if v := root.quotedString("protocol_version", optional); v != nil {
		e.ProtocolVersion = versionOf(v)
	}
	e.Type = typeOf(root.quotedString("event_type", required))
	into := [...]*string{&e.EventID, &e.CallID, &e.SpriteID, &e.WorkItemID, &e.Timestamp}
	names := [len(into)]string{"event_id", "call_id", "sprite_id", "work_item_id", "timestamp"}
	var ends [len(into)]int
	var room [192]byte
	text := room[:0]
	for i, name := range names {
		if v := root.quotedString(name, optional); v != nil {
			text = quote.AppendDecoded(text, v)
		}
		ends[i] = len(text)
	}
	all, start := string(text), 0
	for i, end := range ends {
		*into[i], start = all[start:end], end
	}
	if v := root.getMember("timestamp", optional); isString(v) {
		if _, err := ParseTime(e.Timestamp); err != nil {
			root.addProblem("timestamp", "must be an RFC 3339 instant")
		}
	}
	e.Payload = root.getMember("payload", optional)
}

// followsOurRules reports whether e has the protocol version of this package.
func (e *Event) followsOurRules(root fields) bool {
	v := root.getMember("protocol_version", optional)
	if v == nil || e.ProtocolVersion == Version {
		return true
	}
	if isString(v) { // another type was reported before
		root.addProblem("protocol_version", "is not "+Version+": the event is kept, but not acted on")
	}
	return false
}

// typeOf decodes a quoted event type, and versionOf a quoted version. Known values are not allocated.
func typeOf(quoted []byte) Type {
	if quoted == nil {
		return ""
	}
	for _, t := range types {
		if isQuoted(quoted, string(t)) {
			return t
		}
	}
	return Type(quote.Decode(quoted))
}

func versionOf(quoted []byte) string {
	if isQuoted(quoted, Version) {
		return Version
	}
	return quote.Decode(quoted)
}

// isQuoted reports whether quoted is plain in quotes, without escapes.
func isQuoted(quoted []byte, plain string) bool { return string(quoted[1:len(quoted)-1]) == plain }
