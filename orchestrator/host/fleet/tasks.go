package fleet

import (
	"time"
)

// Task is when a task began and when it ends, by the clock that is not set.
type Task struct{ Started, Until time.Time }
