package protocol

import (
	"bytes"
	"encoding/json"
)

// DecodeResult reads line, a stdout line that is not an event, as the result of a skill: a JSON object with a boolean ok,
// a string skill, and the members of the outcome: data (an object) or waiting if ok, else error with its code. For any
// other line, including a contradictory result, ok is false: it is ordinary output. Unknown members are tolerated, null
// counts as absent. The checkpoint_id of waiting may be empty: the orchestrator then fills it in.
func DecodeResult(line []byte) (result Result, ok bool) {
	line = bytes.TrimSpace(line)
	if !isObject(line) { // most output is not
		return Result{}, false
	}
	line, _ = toUTF8(line)
	object, err := compactJSON(line)
	if err != nil {
		return Result{}, false
	}
	var r report
	return readResult(newFields("", object, &r))
}

// readResult reads a result from the members of an object.
func readResult(f fields) (result Result, ok bool) {
	result = Result{
		OK:       f.getBool("ok", required),
		Skill:    f.getString("skill", required),
		Data:     f.getObject("data", optional),
		Error:    openFault(f),
		Waiting:  openResultWaiting(f),
		Warnings: openWarnings(f),
		Events:   f.getInt("events", optional),
		CallID:   f.getString("call_id", optional),
	}
	switch {
	case len(f.report.problems) > 0, result.Skill == "", result.Events < 0:
		return Result{}, false
	case result.OK && (result.Error != nil || result.Data != nil && result.Waiting != nil):
		return Result{}, false
	case !result.OK && (result.Error == nil || result.Data != nil || result.Waiting != nil):
		return Result{}, false
	}
	return result, true
}

func openFault(f fields) *Fault {
	if f.getMember("error", optional) == nil {
		return nil
	}
	in, ok := f.objectFields("error")
	if !ok {
		return nil
	}
	fault := &Fault{
		Code:      in.getString("code", required),
		Message:   in.getString("message", required),
		Hint:      in.getString("hint", optional),
		Retryable: in.getBool("retryable", optional),
		Details:   in.getMember("details", optional),
	}
	if fault.Code == "" {
		in.addProblem("code", "must not be empty")
	}
	return fault
}

func openResultWaiting(f fields) *Waiting {
	if f.getMember("waiting", optional) == nil {
		return nil
	}
	in, ok := f.objectFields("waiting")
	if !ok {
		return nil
	}
	return &Waiting{in.getString("reason", required), in.getString("checkpoint_id", optional), openExpected(in), openResumeAt(in)}
}

func openWarnings(f fields) []Warning {
	v := f.getMember("warnings", optional)
	if v == nil {
		return nil
	}
	var out []Warning
	if v[0] != '[' {
		f.addProblem("warnings", "must be a list")
		return nil
	}
	for _, e := range splitArray(json.RawMessage(v)) {
		if !isObject(e) {
			f.addProblem("warnings", "must be a list of objects")
			return nil
		}
		in := newFields("/warnings", e, f.report)
		out = append(out, Warning{in.getString("code", required), in.getString("message", required)})
	}
	return out
}
