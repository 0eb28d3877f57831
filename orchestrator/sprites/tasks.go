package sprites

import (
	"context"
	"net/http"
	"time"
)

// Tasks are the calls about tasks; see [Client.Tasks].
type Tasks struct{ *transport }

// Task is a reason to stay awake, which a sprite has until it ends: an idle sprite is frozen otherwise.
type Task struct {
	Name      string    `json:"name"`
	Expire    string    `json:"expire"` // how much longer it lasts
	StartedAt time.Time `json:"started_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// List lists a sprite's tasks. Hosts other than the embedded one tell them to the sprite itself alone, and answer 404.
func (c Tasks) List(ctx context.Context, name string) ([]Task, error) {
	all := struct{ Tasks []Task }{Tasks: []Task{}}
	err := c.sendRequest(ctx, request{method: http.MethodGet, path: spritePath(name, "tasks")}, &all)
	return all.Tasks, describeError(err, "list the tasks of %s", name)
}

// KeepAwake starts a sprite and keeps it awake by a task for so long, an hour at most; a task of that name is renewed. As
// Tasks, of the embedded host only.
func (c Tasks) KeepAwake(ctx context.Context, name, task string, d time.Duration) (Task, error) {
	var out Task
	err := c.sendRequest(ctx, request{method: http.MethodPut, path: spritePath(name, "tasks", task), in: map[string]string{"expire": d.String()}}, &out)
	return out, describeError(err, "keep %s awake by task %s", name, task)
}

// End ends a task before its time.
func (c Tasks) End(ctx context.Context, name, task string) error {
	return describeError(c.deleteResource(ctx, spritePath(name, "tasks", task), nil), "end task %s of %s", task, name)
}
