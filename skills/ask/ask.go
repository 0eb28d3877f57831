// Package ask holds ask.user: it asks a person a question and waits for the answer. Skills is the list, user the work: an
// INFO of kind "question", a checkpoint, WAITING, and the answer in the resumed call. The orchestrator
// decides whom to ask and how. If the answer is not one of the choices, the question is asked again.
package ask

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/propose"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	maxQuestion = 8 << 10
	maxChoice   = 500
	maxChoices  = 50
	maxInputs   = 50
	answerName  = "answer" // the input of a question that declares none
)

const hintDeclined = "go on without the answer, or end the work; asking the same again asks the same person"

// Skills lists the family.
func Skills() []skill.Skill { return []skill.Skill{{Name: "ask.user", Run: skill.Typed(askUser)}} }

type input struct {
	Question string            `json:"question"`
	Choices  []string          `json:"choices"`
	Default  string            `json:"default"`
	Expected map[string]string `json:"expected_inputs"`
}

type data struct {
	Answer  string                     `json:"answer,omitempty"`
	Answers map[string]json.RawMessage `json:"answers"`
}

// askUser does the work of ask.user.
func askUser(ctx context.Context, c *skill.Call, in input) (*data, error) {
	if err := in.validate(); err != nil {
		return nil, err
	}
	if c.Resume == nil {
		return nil, in.askPerson(ctx, c, in.Question)
	}
	var answers map[string]json.RawMessage
	if err := json.Unmarshal(c.Resume.Inputs, &answers); err != nil {
		return nil, skill.BadInput("", "the answers are not an object: %v", err)
	}
	if err := in.checkDeclined(answers); err != nil {
		return nil, err
	}
	for name := range in.Expected {
		if _, ok := answers[name]; !ok && !(name == answerName && in.Default != "") {
			return nil, in.askPerson(ctx, c, in.Question+" ("+name+" was not answered)")
		}
	}
	maps.DeleteFunc(answers, func(name string, _ json.RawMessage) bool { _, ok := in.Expected[name]; return !ok })
	d := data{Answers: answers}
	if in.Expected[answerName] != "string" {
		return &d, nil
	}
	if raw, ok := answers[answerName]; ok {
		if err := json.Unmarshal(raw, &d.Answer); err != nil {
			return nil, skill.BadInput("/answer", "is not a string")
		}
	}
	d.Answer = cmp.Or(d.Answer, in.Default)
	if len(in.Choices) > 0 && !slices.Contains(in.Choices, d.Answer) {
		return nil, in.askPerson(ctx, c, fmt.Sprintf("%s (%.200q is none of the choices)", in.Question, d.Answer))
	}
	var err error
	if answers[answerName], err = json.Marshal(d.Answer); err != nil {
		return nil, err
	}
	return &d, nil
}

// validate checks the question. A question that declares no inputs expects one answer.
func (in *input) validate() error {
	if err := propose.Text("/question", in.Question, maxQuestion); err != nil {
		return err
	}
	if len(in.Choices) > maxChoices {
		return skill.BadInput("/choices", "has %d entries, at most %d are allowed", len(in.Choices), maxChoices)
	}
	for i, choice := range in.Choices {
		if err := propose.Line(fmt.Sprintf("/choices/%d", i), choice, maxChoice); err != nil {
			return err
		}
	}
	if in.Default != "" && len(in.Choices) > 0 && !slices.Contains(in.Choices, in.Default) {
		return skill.BadInput("/default", "is none of the choices")
	}
	if len(in.Expected) == 0 {
		in.Expected = map[string]string{answerName: "string"}
	}
	if len(in.Expected) > maxInputs {
		return skill.BadInput("/expected_inputs", "has %d entries, at most %d are allowed", len(in.Expected), maxInputs)
	}
	for _, name := range slices.Sorted(maps.Keys(in.Expected)) {
		if err := propose.Name("/expected_inputs", name); err != nil {
			return err
		}
		if !protocol.IsInputType(in.Expected[name]) {
			return skill.BadInput("/expected_inputs/"+name, "%q is none of string, integer, boolean, map, array<T>", in.Expected[name])
		}
	}
	if (len(in.Choices) > 0 || in.Default != "") && in.Expected[answerName] != "string" {
		return skill.BadInput("/expected_inputs", `has no "answer" of type string, which choices and default are for`)
	}
	return nil
}

// askPerson describes the question in an INFO event and waits. The text of WAITING contains the choices as well.
func (in *input) askPerson(ctx context.Context, c *skill.Call, question string) error {
	metadata := map[string]any{}
	reason := question
	if len(in.Choices) > 0 {
		metadata["choices"] = in.Choices
		reason += " [" + strings.Join(in.Choices, " | ") + "]"
	}
	if in.Default != "" {
		metadata["default"] = in.Default
		reason += " (default: " + in.Default + ")"
	}
	raw, err := json.Marshal(metadata)
	if err != nil {
		return fmt.Errorf("describe the question: %w", err)
	}
	if err := c.Emit(protocol.Info{Message: question, Kind: "question", Metadata: raw}); err != nil {
		return err
	}
	return c.Suspend(ctx, reason, in.Expected, nil)
}

// checkDeclined returns an error if a person declined to answer. A question may itself expect an input named approved.
func (in *input) checkDeclined(answers map[string]json.RawMessage) error {
	if _, asked := in.Expected["approved"]; asked || string(answers["approved"]) != "false" {
		return nil
	}
	var comments string
	if raw, ok := answers["comments"]; ok && json.Unmarshal(raw, &comments) == nil && comments != "" {
		return fault.Failed("rejected", "the person did not answer: %s", comments).WithHint(hintDeclined)
	}
	return fault.Failed("rejected", "the person did not answer").WithHint(hintDeclined)
}
