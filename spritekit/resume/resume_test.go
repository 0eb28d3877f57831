package resume_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/resume"
	"github.com/spritekit/lattice/spritekit/workspace"
)

func newRoot(t *testing.T) *workspace.Root {
	t.Helper()
	root, err := workspace.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	if err := root.MkdirAll(protocol.Dir); err != nil {
		t.Fatal(err)
	}
	return root
}

func write(t *testing.T, root *workspace.Root, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root.Dir(), name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		inputs  string // "" is ErrInvalid
	}{
		"as the orchestrator writes it": {`{"work_item_id":"w","checkpoint_id":"v1","inputs":{"ok":true},"context":{"call_id":"c"}}`, `{"ok":true}`},
		"unknown members":               {`{"checkpoint_id":"v1","inputs":{},"resumed_at":"x","context":{"more":[1]}}`, `{}`},
		"no inputs":                     {`{"checkpoint_id":"v1"}`, `{}`},
		"inputs are null":               {`{"checkpoint_id":"v1","inputs":null}`, ``},
		"inputs are a list":             {`{"checkpoint_id":"v1","inputs":[]}`, ``},
		"no checkpoint":                 {`{"inputs":{}}`, ``},
		"a checkpoint of a wrong type":  {`{"checkpoint_id":7,"inputs":{}}`, ``},
		"torn":                          {`{"checkpoint_id":"v1","inp`, ``},
		"empty":                         {``, ``},
		"two payloads":                  {`{"checkpoint_id":"v1"}{"checkpoint_id":"v2"}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t)
			write(t, root, protocol.ResumeFile, tc.content)
			r, err := resume.Read(root)
			if tc.inputs == "" {
				if !errors.Is(err, resume.ErrInvalid) {
					t.Errorf("Read = %+v, %v, want ErrInvalid", r, err)
				}
				return
			}
			if err != nil || string(r.Inputs) != tc.inputs || r.CheckpointID != "v1" {
				t.Errorf("Read = %+v, %v, want inputs %s", r, err, tc.inputs)
			}
		})
	}
	if r, err := resume.Read(newRoot(t)); r != nil || err != nil {
		t.Errorf("Read of nothing = %+v, %v", r, err)
	}
	root := newRoot(t)
	write(t, root, protocol.ResumeFile, strings.Repeat(" ", 5<<20))
	if _, err := resume.Read(root); !errors.Is(err, workspace.ErrTooLarge) {
		t.Errorf("Read of 5 MiB = %v, want ErrTooLarge", err)
	}
}

func payload(checkpoint, inputs string) *protocol.Resume {
	return &protocol.Resume{WorkItemID: "w", CheckpointID: checkpoint, Inputs: json.RawMessage(inputs)}
}

// The same checkpoint with the same payload is processed once; either of them being another is another resume.
func TestMarker(t *testing.T) {
	root := newRoot(t)
	processed := func(r *protocol.Resume) bool {
		t.Helper()
		done, err := resume.Processed(root, r)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	first := payload("v1", `{"a":1,"b":2}`)
	if processed(first) {
		t.Error("processed before there was a marker")
	}
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	if err := resume.Mark(root, first, json.RawMessage(`{"ok":true}`), at); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		r    *protocol.Resume
		want bool
	}{
		"the same":           {first, true},
		"the same, spelled":  {payload("v1", ` { "b":2, "a":1 } `), true},
		"another answer":     {payload("v1", `{"a":1,"b":3}`), false},
		"another checkpoint": {payload("v2", `{"a":1,"b":2}`), false},
	} {
		if got := processed(tc.r); got != tc.want {
			t.Errorf("%s: Processed = %v, want %v", name, got, tc.want)
		}
	}
	raw, err := root.ReadFile(protocol.MarkerFile, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	var got protocol.Marker
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	digest, err := first.PayloadDigest()
	if err != nil {
		t.Fatal(err)
	}
	want := protocol.Marker{CheckpointID: "v1", PayloadSHA256: digest, ProcessedAt: protocol.FormatTime(at), Result: json.RawMessage(`{"ok":true}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("marker (-want +got):\n%s", diff)
	}
	for name, content := range map[string]string{"garbage": "\x00", "a list": "[]", "another's": `{"checkpoint_id":"v1","payload_sha256":"x"}`, "empty": ""} {
		write(t, root, protocol.MarkerFile, content)
		if processed(first) {
			t.Errorf("a marker that is %s counts", name)
		}
	}
}

// A marker replaces whatever lies in its place, and never what that points to.
func TestMarkerFollowsNoLink(t *testing.T) {
	root := newRoot(t)
	write(t, root, "user", "precious")
	if err := os.Symlink("../user", filepath.Join(root.Dir(), protocol.MarkerFile)); err != nil {
		t.Fatal(err)
	}
	if err := resume.Mark(root, payload("v1", `{}`), nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(root.Dir(), "user")); err != nil || string(data) != "precious" {
		t.Errorf("the user's file holds %q, %v", data, err)
	}
	if done, err := resume.Processed(root, payload("v1", `{}`)); err != nil || !done {
		t.Errorf("Processed = %v, %v", done, err)
	}
}
