package board

import (
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/fault"
)

// Assign returns the change that assigns a task to an actor, "" to none.
func Assign(t *Task, to string) ([]Change, error) {
	from := t.AssignedTo
	if to != "" {
		if err := CheckActor(to); err != nil {
			return nil, fault.BadInput("bad_input", "%v", err)
		}
	}
	if from == to {
		return nil, nil
	}
	return []Change{{AssignmentChanged, ChangeData{From: &from, To: to}}}, nil
}

// AddComment returns the change that adds a comment to a task.
func AddComment(body string) ([]Change, error) {
	if strings.TrimSpace(body) == "" {
		return nil, fault.BadInput("bad_input", "the comment is empty")
	}
	return []Change{{CommentAdded, Comment{Body: body}}}, nil
}

// Badge says whether a task has an artifact that a completion policy asks for (seed workers-design, "Completion Policy Badge").
type Badge struct {
	Role string `json:"role"`
	// Has is the newest artifact of the role, nil if the task needs one.
	Has *Artifact `json:"has,omitempty"`
}

// Badges returns a badge of a task for each role that the policy of a status asks for.
func (c Config) Badges(t *Task) (badges []Badge) {
	for _, status := range c.Workflow.Statuses {
		for _, role := range c.Workflow.CompletionPolicies[status].RequireRoles {
			if t.Status == Cancelled || slices.ContainsFunc(badges, func(b Badge) bool { return b.Role == role }) {
				continue
			}
			b := Badge{Role: role}
			for i, a := range t.Artifacts {
				if a.Role == role {
					b.Has = &t.Artifacts[i]
				}
			}
			badges = append(badges, b)
		}
	}
	return badges
}
