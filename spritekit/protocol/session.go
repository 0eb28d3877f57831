package protocol

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// A session carries many calls over one exec (DESIGN 17). Both sides write lines of JSON, each in one piece:
//
//	to the session    {"call_id":…,"skill":…,"input":{…},…}    SessionCall: make this call
//	                  {"cancel":"CALL_ID"}                      SessionCancel: end it soon; its result line follows
//	                  end of input                              no more calls: those under way end, then the session
//	from the session  {"session":"ready",…}                     SessionNote, first of all
//	                  LATTICE_EVENT {…,"call_id":…}             an event of a call, after it is in the outbox
//	                  {"call_id":…,"stderr":"text"}             SessionOutput: output of a call for people
//	                  {"ok":…,"skill":…,…,"call_id":…,"exit":0} SessionResult: the last line of a call, one for each call
//	                  {"session":"refused","line":3,…}          SessionNote: a line that was not a valid call and was ignored
//	                  {"session":"keepalive"}                   SessionNote: nothing else was written for a while
//
// A session with exit code 0 or 75 has answered every call that it started; a line without an answer had no effect. It
// exits with 75 after a call that waits, because a boundary follows; with 0 at the end of input and after a long idle
// time.

// Values of SessionNote.Session.
const (
	SessionReady     = "ready"
	SessionRefused   = "refused"
	SessionKeepalive = "keepalive"
)

// Codes of the results that a session itself gives a call.
const (
	CodeSkillMissing = "skill_missing" // there is no such skill (exit 3), or its program cannot be run (126)
	CodeNoResult     = "no_result"     // the program ended without a result line; exit is the program's
)

// CodeResultTooLong is the error code of a result line that is longer than MaxLine; exit is the program's.
const CodeResultTooLong = "result_too_long"

// WarnSpilled is the code of the warning that the data of a result, or the details of its error, were moved to a file and
// replaced by a reference {path,size,sha256}.
const WarnSpilled = "result_spilled"

// OutputAfterResult returns the warning about output that follows a result line.
func OutputAfterResult() Warning {
	return Warning{Code: "output_after_result", Message: "output follows the result line, which must be the last line of stdout"}
}

// SessionCall asks for one call of a skill.
type SessionCall struct {
	CallID string `json:"call_id"`
	Skill  string `json:"skill"`
	// Input as the skill takes it on stdin; absent = {}.
	Input          json.RawMessage `json:"input,omitempty"`
	WorkItemID     string          `json:"work_item_id,omitempty"` // default the run's id
	RunID          string          `json:"run_id,omitempty"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	// Permissions are what the call may do; absent = what the session itself was granted, empty = nothing.
	Permissions *[]string `json:"permissions,omitempty"`
	// TimeoutS ends the call after so many seconds; 0 = it has all the time of the session.
	TimeoutS float64 `json:"timeout_s,omitempty"`
	// Token is repeated in the result line, which proves that the session wrote it: nothing else in the sprite is told.
	Token string `json:"token,omitempty"`
}

// SessionCancel cancels a call. A call that is unknown or has ended is not an error.
type SessionCancel struct {
	Cancel string `json:"cancel"`
}

// SessionResult is the last line of a call: the result as every skill prints it, and the exit code.
type SessionResult struct {
	Result
	Exit   int      `json:"exit"`
	Token  string   `json:"token,omitempty"`
	Outbox *Stretch `json:"outbox,omitempty"`
}

// Stretch is the range of the outbox, in bytes, up to the result of this call, that was written by calls of this session
// alone.
type Stretch struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// SessionNote reports the state of a session.
type SessionNote struct {
	Session         string    `json:"session"`                    // ready, refused or keepalive
	ProtocolVersion string    `json:"protocol_version,omitempty"` // ready
	Parallel        int       `json:"parallel,omitempty"`         // ready: how many calls run side by side
	Line            int       `json:"line,omitempty"`             // refused: its number, from 1
	CallID          string    `json:"call_id,omitempty"`          // refused: the one that the line names, if it names one
	Problems        []Problem `json:"problems,omitempty"`         // refused
}

// SessionOutput is output of a call other than its events: text for people, or a line of a third-party program on stdout,
// unchanged. An event among those lines has no call id, or that of another call.
type SessionOutput struct {
	CallID string  `json:"call_id"`
	Stdout *string `json:"stdout,omitempty"` // one line, without its end
	Stderr *string `json:"stderr,omitempty"`
}

// DecodeSessionRequest reads a line that was sent to a session. Exactly one of call and cancel is set, unless there are
// problems: then call has the members that could be read, so that a refusal can name it.
func DecodeSessionRequest(line []byte) (call SessionCall, cancel string, problems []Problem) {
	if !utf8.Valid(line) {
		return call, "", []Problem{{"", "is not UTF-8"}}
	}
	object, err := compactJSON(line)
	if err != nil {
		return call, "", []Problem{{"", "is not JSON: " + err.Error()}}
	}
	if !isObject(object) {
		return call, "", []Problem{{"", "is not a JSON object"}}
	}
	var r report
	f := newFields("", object, &r)
	if f.getMember("cancel", optional) != nil {
		f.reportUnknown("cancel")
		return call, f.getString("cancel", required), r.problems
	}
	f.reportUnknown("call_id", "skill", "input", "work_item_id", "run_id", "idempotency_key", "permissions", "timeout_s", "token")
	call = SessionCall{
		CallID: f.getString("call_id", required), Skill: f.getString("skill", required), Input: f.getObject("input", optional),
		WorkItemID: f.getString("work_item_id", optional), RunID: f.getString("run_id", optional),
		IdempotencyKey: f.getString("idempotency_key", optional), Token: f.getString("token", optional),
	}
	if f.getMember("permissions", optional) != nil {
		list := f.stringList("permissions")
		call.Permissions = &list
	}
	if v := f.getMember("timeout_s", optional); v != nil {
		x, err := strconv.ParseFloat(string(v), 64)
		if err != nil || x <= 0 {
			f.addProblem("timeout_s", "must be a number above 0")
		}
		call.TimeoutS = x
	}
	return call, "", r.problems
}

// reportUnknown reports members other than names.
func (f fields) reportUnknown(names ...string) {
	for _, m := range f.members {
		known := false
		for _, name := range names {
			known = known || m.name == name
		}
		if !known {
			f.addProblem(m.name, "is not known")
		}
	}
}

// SessionLine is a line of a session that is not an event. Exactly one of its fields is set.
type SessionLine struct {
	Result *SessionResult
	Output *SessionOutput
	Note   *SessionNote
}

// DecodeSessionLine reads a line of a session that is not an event; ok is false if it is not such a line. Unknown members
// are tolerated.
func DecodeSessionLine(line []byte) (out SessionLine, ok bool) {
	if !isObject(line) {
		return out, false
	}
	object, err := compactJSON(line)
	if err != nil {
		return out, false
	}
	var r report
	f := newFields("", object, &r)
	switch {
	case f.getMember("session", optional) != nil:
		out.Note = &SessionNote{
			Session: f.getString("session", required), ProtocolVersion: f.getString("protocol_version", optional),
			Parallel: f.getInt("parallel", optional), Line: f.getInt("line", optional), CallID: f.getString("call_id", optional),
			Problems: openProblems(f),
		}
	case f.getMember("ok", optional) != nil:
		result, fits := readResult(f)
		if !fits {
			return out, false
		}
		out.Result = &SessionResult{Result: result, Exit: f.getInt("exit", required), Token: f.getString("token", optional), Outbox: openStretch(f)}
	default:
		out.Output = &SessionOutput{CallID: f.getString("call_id", required), Stdout: f.optionalString("stdout"), Stderr: f.optionalString("stderr")}
		if out.Output.Stdout == nil && out.Output.Stderr == nil {
			return SessionLine{}, false
		}
	}
	return out, len(r.problems) == 0
}

// optionalString returns a string member, nil if it is absent.
func (f fields) optionalString(name string) *string {
	if f.getMember(name, optional) == nil {
		return nil
	}
	text := f.getString(name, required)
	return &text
}

func openStretch(f fields) *Stretch {
	if f.getMember("outbox", optional) == nil {
		return nil
	}
	in, ok := f.objectFields("outbox")
	if !ok {
		return nil
	}
	return &Stretch{From: in.fileOffset("from"), To: in.fileOffset("to")}
}

// fileOffset returns a required offset in a file.
func (f fields) fileOffset(name string) int64 {
	n, err := strconv.ParseInt(string(f.getMember(name, required)), 10, 64)
	if err != nil || n < 0 {
		f.addProblem(name, "must be a position in a file")
	}
	return n
}

func openProblems(f fields) []Problem {
	list := f.getMember("problems", optional)
	if list == nil {
		return nil
	}
	if list[0] != '[' {
		f.addProblem("problems", "must be a list")
		return nil
	}
	var out []Problem
	for _, e := range splitArray(list) {
		if len(out) == maxProblems || !isObject(e) {
			break
		}
		in := newFields("/problems", e, f.report)
		out = append(out, Problem{in.getString("pointer", required), in.getString("message", required)})
	}
	return out
}
