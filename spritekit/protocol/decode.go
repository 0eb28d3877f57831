package protocol

// Decode reads one envelope, v1 or legacy. ok is false when line is no JSON object or has neither event_type nor type;
// such a line is ordinary output. An event that breaks a rule is ok, with its problems: it is kept, and nobody acts on
// it. A member that is absent (or null) is no problem unless the payload's rules require it; whoever ingests the event
// fills in sprite, work item and time. Bytes that are no UTF-8 become U+FFFD.
func Decode(line []byte) (e Event, problems []Problem, ok bool) {
	e, problems, why := decode(line)
	return e, problems, why == ""
}

// decode is Decode that says why line is no event.
func decode(line []byte) (e Event, problems []Problem, why string) {
	var r report
	line, replaced := toUTF8(line)
	if replaced {
		r.add("", "holds bytes that are no UTF-8; they were replaced by U+FFFD")
	}
	spaces, err := validate(line)
	if err != nil {
		return Event{}, nil, "not readable as JSON: " + err.Error()
	}
	raw := compact(line, spaces)
	if !isObject(raw) {
		return Event{}, nil, "a JSON value that is no object"
	}
	var room [12]member
	root := newFields("", raw, room[:0], &r)
	eventType, legacyType := root.get("event_type", optional), root.get("type", optional)
	normal := raw
	switch {
	case eventType != nil && root.get("payload", optional) != nil: // v1 as it should be
	case eventType != nil:
		normal = gatherPayload(root)
	case legacyType != nil:
		normal, e.Legacy = normalise(raw, root), true
	default:
		return Event{}, nil, "an object with neither event_type nor type"
	}
	if len(normal) != len(raw) || &normal[0] != &raw[0] {
		root.members = members(normal, nil)
	}
	e.read(normal, root)
	return e, r.problems, ""
}

// read fills e from its envelope and reports the rules that it breaks.
func (e *Event) read(raw []byte, root fields) {
	e.Raw = raw
	e.ProtocolVersion = root.str("protocol_version", optional)
	if e.ProtocolVersion == Version {
		e.ProtocolVersion = Version // shares the constant's memory
	}
	e.Type = Type(root.str("event_type", required))
	e.EventID = root.str("event_id", optional)
	e.CallID = root.str("call_id", optional)
	e.SpriteID = root.str("sprite_id", optional)
	e.WorkItemID = root.str("work_item_id", optional)
	e.Timestamp = root.str("timestamp", optional)
	if v := root.get("timestamp", optional); isString(v) {
		if _, err := ParseTime(e.Timestamp); err != nil {
			root.bad("timestamp", "must be an RFC 3339 instant")
		}
	}
	e.Payload = root.get("payload", optional)
	if v := root.get("protocol_version", optional); v != nil && e.ProtocolVersion != Version {
		if isString(v) { // what is none was reported already
			root.bad("protocol_version", "is not "+Version+": the event is kept, but not acted on")
		}
		return // its payload follows rules that we do not know
	}
	openPayload(e.Type, e.Payload, root.report)
}
