package protocol

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Question is the question of a legacy program that needs an answer (event question) or the reason why it cannot continue
// (event blocked). The program does not wait: it ends, and starts again in another run that has the answer.
type Question struct {
	// Kind is question or blocked.
	Kind string `json:"kind"`
	// ID names the answer; "" if the program gave no valid name.
	ID      string   `json:"id,omitempty"`
	Prompt  string   `json:"prompt"`
	Choices []string `json:"choices,omitempty"`
	Default string   `json:"default,omitempty"` // one of the choices, if there are any
}

// Kinds of a Question, and of the INFO that a legacy event is converted to.
const (
	KindQuestion = "question"
	KindBlocked  = "blocked"
)

const (
	maxPrompt  = 8 << 10 // bytes; a longer one is cut
	maxChoice  = 1 << 10 // bytes of a choice or a default
	maxChoices = 64
)

// MarkLegacy marks, in its metadata, an INFO that was converted from a legacy question or blocked event, so that readers
// can distinguish it from any other INFO after it was emitted again as v1. Another INFO is returned unchanged.
func MarkLegacy(info Info) Info {
	if info.Kind != KindQuestion && info.Kind != KindBlocked {
		return info
	}
	metadata := map[string]json.RawMessage{}
	if json.Unmarshal(info.Metadata, &metadata) != nil || metadata == nil {
		metadata = map[string]json.RawMessage{}
	}
	metadata["legacy"] = json.RawMessage("true")
	if raw, err := json.Marshal(metadata); err == nil {
		info.Metadata = raw
	}
	return info
}

// Asked returns the question of a legacy question or blocked event, or of an INFO that MarkLegacy marked. Choices are left
// out if there are too many or one is too long.
func Asked(e Event) (Question, bool) {
	if e.Type != TypeInfo || !e.Legacy && !bytes.Contains(e.Payload, []byte(`"legacy"`)) { // a cheap test that most events fail
		return Question{}, false
	}
	payload, err := e.Open()
	info, ok := payload.(Info)
	if err != nil || !ok || info.Kind != KindQuestion && info.Kind != KindBlocked {
		return Question{}, false
	}
	var with map[string]json.RawMessage
	if err := json.Unmarshal(info.Metadata, &with); err != nil {
		with = nil // nothing but the prompt
	}
	if !e.Legacy && string(with["legacy"]) != "true" {
		return Question{}, false
	}
	q := Question{Kind: info.Kind, Prompt: info.Message}
	if len(q.Prompt) > maxPrompt {
		q.Prompt = strings.ToValidUTF8(q.Prompt[:maxPrompt], "") + "…"
	}
	if q.Kind == KindBlocked {
		return q, true
	}
	if id, ok := formatScalar(with["id"]); ok && isAnswerName(id) {
		q.ID = id
	}
	q.Choices = readChoices(with["choices"])
	if d, ok := formatScalar(with["default"]); ok && (len(q.Choices) == 0 || slices.Contains(q.Choices, d)) {
		q.Default = d
	}
	return q, true
}

func readChoices(raw json.RawMessage) []string {
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil || len(all) > maxChoices {
		return nil
	}
	var out []string
	for _, raw := range all {
		choice, ok := formatScalar(raw)
		if !ok {
			return nil
		}
		out = append(out, choice)
	}
	return out
}

// formatScalar returns a JSON string, number or boolean as a person types it.
func formatScalar(raw json.RawMessage) (string, bool) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	return text, text != "" && text != "null" && len(text) <= maxChoice
}

// isAnswerName reports whether s is a valid name of an answer.
func isAnswerName(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// AnswerName is the name of the answer to a question without an id, and the name under which a person answers.
const AnswerName = "answer"

// Answers returns the members of answers.json for an answer to q: under its id; without an id under "answer" and also under
// the text of the question, so that the answers to several questions do not replace each other.
func (q Question) Answers(answer string) map[string]string {
	if q.ID != "" {
		return map[string]string{q.ID: answer}
	}
	out := map[string]string{AnswerName: answer}
	if q.Prompt != "" {
		out[q.Prompt] = answer
	}
	return out
}
