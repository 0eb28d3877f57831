package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	// questionsDir holds the question of each call that waits in the place of a skill: CALL.json.
	questionsDir = ".lattice/programs"
	maxQuestion  = 1 << 20

	parentVariable = "LATTICE_AGENT_CALL_ID"
)

var errWaiting = errors.New("a skill that the program called waits")

// Identity returns variables of the environment, as name and value, that make calls of skills in a program nested calls of parent.
func Identity(c *skill.Call, parent string) (set [][2]string) {
	for _, v := range [][2]string{
		{"LATTICE_SPRITE_ID", c.SpriteID}, {"LATTICE_WORK_ITEM_ID", c.WorkItemID}, {"LATTICE_RUN_ID", c.RunID},
		{"LATTICE_WORKSPACE", c.Root.Dir()}, {"LATTICE_STATE", c.Root.State()}, {"LATTICE_SOCKET", c.Socket}, {parentVariable, parent},
	} {
		if v[1] != "" {
			set = append(set, v)
		}
	}
	return set
}

// Parent returns the call that waits for the skills which the program of c calls: c, or the call to which c is nested.
func Parent(c *skill.Call) string { return proc.Getenv(c.Env, parentVariable, c.ID) }

// Attend runs the program of call c by calling run. The program has the environment of Identity with the parent Parent(c). If a
// skill that it calls waits, Attend ends the context of run, has c wait in its place and returns true; the caller must then
// return. After the answer, c begins again and so does the program. The skill returns the answer when the program calls it with
// the same input.
func Attend(ctx context.Context, c *skill.Call, run func(context.Context) error) (waits bool, err error) {
	if Parent(c) != c.ID { // the parent attends
		return false, run(ctx)
	}
	if err := answerQuestion(ctx, c); err != nil {
		return false, err
	}
	attended, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var asked *skill.Question // written by the goroutine of the relay until Finish returns
	r, err := follow(c, true, func(q skill.Question) {
		if asked == nil {
			asked = &q
			stop(errWaiting)
		}
	})
	if err != nil {
		return false, err
	}
	err = run(attended)
	failed := r.Finish()
	if asked == nil || failed != nil || ctx.Err() != nil {
		return false, errors.Join(err, failed)
	}
	if err := saveQuestion(c, *asked); err != nil {
		return false, err
	}
	return true, Suspend(ctx, c, *asked)
}

// IsAnswered reports whether c was resumed with the answer to a question of a skill, which Attend hands over.
func IsAnswered(c *skill.Call) bool {
	_, err := c.Root.Stat(questionFile(c))
	return c.Resume != nil && err == nil
}

// Suspend has c wait in the place of the skill that asks q.
func Suspend(ctx context.Context, c *skill.Call, q skill.Question) error {
	if until, err := time.Parse(time.RFC3339, q.Waiting.ResumeAt); err == nil {
		return c.SuspendUntil(ctx, q.Waiting.Reason, until)
	}
	return c.Suspend(ctx, q.Waiting.Reason, q.Waiting.ExpectedInputs, q.Request)
}

func questionFile(c *skill.Call) string { return questionsDir + "/" + c.ID + ".json" }

func saveQuestion(c *skill.Call, q skill.Question) error {
	raw, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("write the question of %s: %w", q.Skill, err)
	}
	if err := c.Root.MkdirAll(questionsDir); err != nil {
		return err
	}
	return c.Root.WriteFile(questionFile(c), append(raw, '\n'), 0o600)
}

// answerQuestion hands the answer of a resumed call to the skill that asked.
func answerQuestion(ctx context.Context, c *skill.Call) error {
	if c.Resume == nil {
		return nil
	}
	raw, err := c.Root.ReadFile(questionFile(c), maxQuestion)
	if errors.Is(err, fs.ErrNotExist) { // handed over before the call was cut off
		return nil
	}
	var q skill.Question
	if err == nil {
		err = json.Unmarshal(raw, &q)
	}
	if err != nil {
		return fmt.Errorf("read the question of call %s: %w", c.ID, err)
	}
	if err := c.Answer(ctx, q); err != nil {
		return err
	}
	return c.Root.Remove(questionFile(c))
}
