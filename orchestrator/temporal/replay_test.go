package temporal

import (
	"os"
	"path/filepath"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

// TestReplay: this interpreter makes the decisions of histories that a server recorded. If it does not, Version has to rise.
// TestServer records them with -record.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d recorded histories, %v", len(files), err)
	}
	seen, most := map[enumspb.EventType]int{}, 0 // activities at the same time
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			h, err := client.HistoryFromJSON(openFile(t, file), client.HistoryJSONOptions{})
			if err != nil {
				t.Fatal(err)
			}
			open := 0
			for _, e := range h.Events {
				seen[e.EventType]++
				switch e.EventType {
				case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
					open++
				case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
					open--
				}
				most = max(most, open)
			}
			if err := replayer(t, Folder("testdata/blobs")).ReplayWorkflowHistoryFromJSONFile(nil, file); err != nil {
				t.Error(err)
			}
		})
	}
	if most < 2 || seen[enumspb.EVENT_TYPE_TIMER_FIRED] < 2 || seen[enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED] == 0 { // the timers of a pause and of a retry
		t.Errorf("the histories have %v, and at most %d activities at the same time", seen, most)
	}
}

func openFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// replayer returns a replayer of workflows.
func replayer(t *testing.T, blobs Blobs) worker.WorkflowReplayer {
	t.Helper()
	r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DataConverter: newConverter(blobs)})
	if err != nil {
		t.Fatal(err)
	}
	registerWorkflow(r)
	return r
}
