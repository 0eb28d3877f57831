package protocol

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Question is what a program of the time before v1 wants to know before it can go on, by the event question; or why it
// cannot go on, by the event blocked. It does not wait: it ends, and begins anew in another run that holds the answer.
type Question struct {
	// Kind is question or blocked.
	Kind string `json:"kind"`
	// ID names the answer; "" when the program gave no name that can be one.
	ID      string   `json:"id,omitempty"`
	Prompt  string   `json:"prompt"`
	Choices []string `json:"choices,omitempty"`
	Default string   `json:"default,omitempty"` // one of the choices, where there are any
}

// Kinds of a Question, and of the INFO that a legacy event becomes.
const (
	KindQuestion = "question"
	KindBlocked  = "blocked"
)

const (
	maxPrompt  = 8 << 10 // bytes; what is longer is cut
	maxChoice  = 1 << 10 // bytes of a choice or a default
	maxChoices = 64
)

// MarkLegacy has an INFO that a legacy question or blocked became say so in its metadata: whoever emits it again writes
// v1 only, and readers must still tell it from an INFO that merely informs. Any other INFO comes back as it is.
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

// Asked is the question of a legacy question or blocked, or of the INFO that MarkLegacy made of one. What does not fit
// is left out: choices that are too many or too long are none.
func Asked(e Event) (Question, bool) {
	if e.Type != TypeInfo || !e.Legacy && !bytes.Contains(e.Payload, []byte(`"legacy"`)) { // most events, and cheaply
		return Question{}, false
	}
	payload, err := e.Open()
	info, ok := payload.(Info)
	if err != nil || !ok || info.Kind != KindQuestion && info.Kind != KindBlocked {
		return Question{}, false
	}
	var with map[string]json.RawMessage
	if err := json.Unmarshal(info.Metadata, &with); err != nil {
		with = nil // nothing beside the prompt
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
	if id, ok := plain(with["id"]); ok && isAnswerName(id) {
		q.ID = id
	}
	q.Choices = choices(with["choices"])
	if d, ok := plain(with["default"]); ok && (len(q.Choices) == 0 || slices.Contains(q.Choices, d)) {
		q.Default = d
	}
	return q, true
}

func choices(raw json.RawMessage) []string {
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil || len(all) > maxChoices {
		return nil
	}
	var out []string
	for _, raw := range all {
		choice, ok := plain(raw)
		if !ok {
			return nil
		}
		out = append(out, choice)
	}
	return out
}

// plain is a JSON value as a person types it.
func plain(raw json.RawMessage) (string, bool) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	return text, text != "" && text != "null" && len(text) <= maxChoice
}

// isAnswerName reports whether s is fit to name an answer.
func isAnswerName(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// AnswerName is the name of an answer whose question has no id, and what a person's answer is called in any case.
const AnswerName = "answer"

// Answers are the members that answers.json has for an answer to q: under its id; or else under "answer", and, so that
// the answers to several questions do not replace each other, under the question's own words.
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
