// Package propose is shared by skills that send a request to the orchestrator instead of acting: sprites propose, Lattice
// governs (DESIGN 18, 20). Ask sends a request and waits, Tell sends one without waiting, Answered reads the answer to Ask.
// The package has no skills.
package propose

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Ask requests an action and pauses the call until its answer is there: ACTION_REQUEST, checkpoint, WAITING.
func Ask(ctx context.Context, c *skill.Call, action string, parameters any) error {
	raw, err := json.Marshal(parameters)
	if err != nil {
		return fmt.Errorf("describe %s: %w", action, err)
	}
	expected := map[string]string{"ok": "boolean", "action": "string", "result": "map", "error": "map"}
	return c.Suspend(ctx, action, expected, &protocol.ActionRequest{Action: action, Parameters: raw, Blocking: true})
}

// Tell requests an action and goes on: whether it is done is for the orchestrator to know.
func Tell(c *skill.Call, action string, parameters any) error {
	raw, err := json.Marshal(parameters)
	if err != nil {
		return fmt.Errorf("describe %s: %w", action, err)
	}
	return c.Emit(protocol.ActionRequest{Action: action, Parameters: raw})
}

const hintRejected = "a person or a policy decided so: heed the comments, and do not ask for the same again unchanged"

// Answer is the answer to a request that was not refused.
type Answer struct {
	Result   json.RawMessage // of the action; nil if a person approved without a result
	Comments string          // of that person
}

// Answered reads the answer of a resumed call: the result of the action, or a person's plain word. A refusal is an error
// with the code that the orchestrator gave, "rejected" when a person said no.
func Answered(c *skill.Call, action string) (Answer, error) {
	var a struct {
		OK       *bool           `json:"ok"`
		Action   string          `json:"action"`
		Result   json.RawMessage `json:"result"`
		Error    *protocol.Fault `json:"error"`
		Approved *bool           `json:"approved"`
		Comments string          `json:"comments"`
	}
	if err := c.Inputs(&a); err != nil {
		return Answer{}, err
	}
	if string(a.Result) == "null" {
		a.Result = nil
	}
	switch {
	case a.Action != "" && a.Action != action:
		return Answer{}, skill.BadInput("/action", "is %s, not the %s that this call asked for", a.Action, action)
	case a.OK != nil && *a.OK:
		return Answer{Result: a.Result, Comments: a.Comments}, nil
	case a.OK == nil && a.Approved != nil && *a.Approved:
		return Answer{Comments: a.Comments}, nil
	case a.Error != nil && a.Error.Code != "":
		e := fault.Failed(a.Error.Code, "%s was refused: %s", action, cmp.Or(a.Error.Message, a.Error.Code))
		e.Retryable = a.Error.Retryable
		if len(a.Error.Details) > 0 {
			e.Details = a.Error.Details
		}
		return Answer{}, e.WithHint("%s", a.Error.Hint)
	case a.Comments != "":
		return Answer{}, fault.Failed("rejected", "%s was rejected: %s", action, a.Comments).WithHint(hintRejected)
	}
	return Answer{}, fault.Failed("rejected", "%s was rejected", action).WithHint(hintRejected)
}

// Text refuses an empty text, one of more than most bytes, and one that no terminal should be shown.
func Text(pointer, text string, most int) error {
	if strings.TrimSpace(text) == "" {
		return skill.BadInput(pointer, "is empty")
	}
	return Optional(pointer, text, most)
}

// Optional is Text for one that may be empty.
func Optional(pointer, text string, most int) error {
	if len(text) > most {
		return skill.BadInput(pointer, "has %d bytes, at most %d are allowed", len(text), most)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }) || !utf8.ValidString(text) {
		return skill.BadInput(pointer, "holds control characters")
	}
	return nil
}

// Line is Text without line ends.
func Line(pointer, text string, most int) error {
	if strings.ContainsAny(text, "\r\n") {
		return skill.BadInput(pointer, "has more than one line")
	}
	return Text(pointer, text, most)
}

// Name refuses a text that is not a plain name: letters, digits, dot, dash, underscore, slash and colon, no option.
func Name(pointer, name string) error {
	bad := strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-/:", r))
	})
	if name == "" || len(name) > 128 || bad >= 0 || name[0] == '-' {
		return skill.BadInput(pointer, "%q is not a name: letters, digits and ._-/:, at most 128", name)
	}
	return nil
}

// Link refuses a text that is not an http or https URL, and one that carries a password.
func Link(pointer, link string) error {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || len(link) > 2048 {
		return skill.BadInput(pointer, "is not an http or https URL")
	}
	if u.User != nil {
		return skill.BadInput(pointer, "carries a user or password")
	}
	return nil
}
