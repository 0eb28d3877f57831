package skill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// bench is a workspace in which calls are made.
type bench struct {
	t   *testing.T
	dir string
	env skill.Env
}

func newBench(t *testing.T, environ ...string) *bench {
	dir := t.TempDir()
	environ = append([]string{"LATTICE_WORKSPACE=" + dir, "LATTICE_SOCKET=", "LATTICE_CALL_ID=c1"}, environ...)
	return &bench{t: t, dir: dir, env: skill.ParseEnv(environ)}
}

// outcome is what a caller sees of a call.
type outcome struct {
	exit   int
	result protocol.Result
	events []protocol.Event
	stderr string
}

func (o outcome) types() (list []string) {
	for _, e := range o.events {
		list = append(list, string(e.Type))
	}
	return list
}

func (b *bench) call(class manifests.Class, input string, run skill.Func) outcome {
	b.t.Helper()
	return b.callCtx(context.Background(), class, input, run)
}

func (b *bench) callCtx(ctx context.Context, class manifests.Class, input string, run skill.Func) outcome {
	b.t.Helper()
	m := manifests.Skill{
		Name: "demo.do", SideEffect: class, Permissions: []string{"fs:read", "git:push"},
		Inputs: []manifests.Field{
			{Name: "path", Type: "string", Required: true},
			{Name: "count", Type: "integer", Default: json.RawMessage("3")},
		},
	}
	if b.env.Grants.All {
		m.Permissions = nil
	}
	var stdout, stderr bytes.Buffer
	exit := skill.Serve(ctx, skill.Skill{Name: m.Name, Run: run}, m, b.env,
		skill.IO{Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr})
	o := outcome{exit: exit, stderr: stderr.String()}
	lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
	for _, line := range lines[:len(lines)-1] {
		e, problems, ok := protocol.Decode([]byte(strings.TrimPrefix(line, protocol.Prefix)))
		if !ok || len(problems) > 0 {
			b.t.Fatalf("stdout line %q: problems %v", line, problems)
		}
		o.events = append(o.events, e)
	}
	var ok bool
	if o.result, ok = protocol.DecodeResult([]byte(lines[len(lines)-1])); !ok {
		b.t.Fatalf("last stdout line is no result: %q (stderr %s)", lines[len(lines)-1], stderr.String())
	}
	if o.result.OK != (exit == protocol.ExitOK || exit == protocol.ExitWaiting) {
		b.t.Errorf("exit %d with ok %v", exit, o.result.OK)
	}
	return o
}

// write puts a file into the workspace, as anything in the sprite could.
func (b *bench) write(name, content string) {
	b.t.Helper()
	file := filepath.Join(b.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

func count(n *int) skill.Func {
	return func(ctx context.Context, c *skill.Call) (skill.Result, error) {
		*n++
		return skill.Result{Data: map[string]int{"n": *n}}, nil
	}
}

func TestInputComesFromStdinThenEnvironmentThenDefault(t *testing.T) {
	for _, tc := range []struct {
		name, input string
		environ     []string
		want        string
	}{
		{"default", `{"$schema":"x","path":"a"}`, nil, `{"count":3,"path":"a"}`},
		{"environment", ``, []string{"LATTICE_INPUT_PATH=12", "LATTICE_INPUT_COUNT=7"}, `{"count":7,"path":"12"}`},
		{"stdin wins", `{"path":"a"}`, []string{"LATTICE_INPUT_PATH=b"}, `{"count":3,"path":"a"}`},
		{"null is absent", `{"path":"a","count":null}`, nil, `{"count":3,"path":"a"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got string
			o := newBench(t, tc.environ...).call(manifests.ClassRead, tc.input, func(_ context.Context, c *skill.Call) (skill.Result, error) {
				got = string(c.Input)
				return skill.Result{}, nil
			})
			if o.exit != 0 || got != tc.want {
				t.Errorf("exit %d, input %s, want %s", o.exit, got, tc.want)
			}
		})
	}
}

func TestMissingPermissionsAreNamedAtOnce(t *testing.T) {
	n := 0
	o := newBench(t, "LATTICE_PERMISSIONS=").call(manifests.ClassSprite, `{"path":"a"}`, count(&n))
	if o.exit != protocol.ExitDenied || n != 0 || !strings.Contains(o.result.Error.Message, "fs:read, git:push") {
		t.Errorf("exit %d after %d runs: %+v", o.exit, n, o.result.Error)
	}
}

func TestErrorsHaveExitCodes(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		exit int
		code string
	}{
		{"of the skill", fault.Failed("tests_failed", "red"), 1, "tests_failed"},
		{"escape", fmt.Errorf("read: %w", workspace.ErrUnsafe), 7, "unsafe_path"},
		{"full disk", &os.PathError{Op: "write", Path: "a", Err: syscall.ENOSPC}, 9, "no_space"},
		{"folder for a file", &os.PathError{Op: "open", Path: "a", Err: syscall.EISDIR}, 7, "unsafe_path"},
		{"file for a folder", &os.PathError{Op: "open", Path: "a/b", Err: syscall.ENOTDIR}, 3, "not_found"},
		{"name taken", &os.PathError{Op: "mkdirat", Path: "a", Err: syscall.EEXIST}, 1, "exists"},
		{"bad input", skill.BadInput("/path", "is wrong"), 2, "bad_input"},
		{"endless name", &os.PathError{Op: "open", Path: "aaa", Err: syscall.ENAMETOOLONG}, 2, "name_too_long"},
		{"limit of file sizes", &os.PathError{Op: "write", Path: "a", Err: syscall.EFBIG}, 9, "too_large"},
		{"read-only workspace", &os.PathError{Op: "open", Path: "a", Err: syscall.EROFS}, 1, "read_only"},
		{"quota", &os.PathError{Op: "write", Path: "a", Err: syscall.EDQUOT}, 9, "quota_exceeded"},
		{"no permission", &os.PathError{Op: "open", Path: "a", Err: syscall.EACCES}, 1, "access_denied"},
		{"broken disk", &os.PathError{Op: "read", Path: "a", Err: syscall.EIO}, 1, "io_error"},
		{"outbox locked for ever", fmt.Errorf("append: %w", outbox.ErrLocked), 6, "busy"},
		{"deadline", context.DeadlineExceeded, 124, "timeout"},
		{"not found", os.ErrNotExist, 3, "not_found"},
		{"unknown", errors.New("boom"), 70, "internal"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newBench(t).call(manifests.ClassRead, `{"path":"a"}`, func(context.Context, *skill.Call) (skill.Result, error) {
				return skill.Result{}, tc.err
			})
			if o.exit != tc.exit || o.result.Error.Code != tc.code {
				t.Errorf("exit %d, %+v; want %d %s", o.exit, o.result.Error, tc.exit, tc.code)
			}
			if o.exit == protocol.ExitBadInput && o.result.Error.Hint == "" {
				t.Errorf("%+v has no hint", o.result.Error)
			}
		})
	}
	t.Run("panic", func(t *testing.T) {
		o := newBench(t).call(manifests.ClassRead, `{"path":"a"}`, func(context.Context, *skill.Call) (skill.Result, error) { panic("ouch") })
		if o.exit != protocol.ExitInternal || !strings.Contains(o.result.Error.Message, "ouch") || !strings.Contains(o.stderr, "serve_test.go") {
			t.Errorf("exit %d, %+v, stderr %s", o.exit, o.result.Error, o.stderr)
		}
	})
}

func TestSameCallIsDoneOnce(t *testing.T) {
	for _, tc := range []struct {
		class manifests.Class
		runs  int
	}{{manifests.ClassRead, 2}, {manifests.ClassIdempotent, 1}, {manifests.ClassSprite, 1}, {manifests.ClassWorld, 1}} {
		t.Run(string(tc.class), func(t *testing.T) {
			b, n := newBench(t), 0
			first := b.call(tc.class, `{"path":"a"}`, count(&n))
			again := b.call(tc.class, `{"path":"a","count":3}`, count(&n)) // the same input, spelled out
			if n != tc.runs || again.exit != 0 {
				t.Errorf("ran %d times, want %d; exit %d", n, tc.runs, again.exit)
			}
			if tc.runs == 1 && !cmp.Equal(first.result, again.result) {
				t.Errorf("replay differs: %s", cmp.Diff(first.result, again.result))
			}
			if first.result.Events != len(first.events) {
				t.Errorf("events %d, want %d", first.result.Events, len(first.events))
			}
			other := b.call(tc.class, `{"path":"b"}`, count(&n))
			if other.exit != protocol.ExitBadInput || other.result.Error.Code != "call_id_reused" {
				t.Errorf("other input: exit %d, %+v", other.exit, other.result.Error)
			}
		})
	}
}

func TestCrashedCallFollowsItsClass(t *testing.T) {
	for _, tc := range []struct {
		class manifests.Class
		runs  int
		code  string
	}{{manifests.ClassRead, 1, ""}, {manifests.ClassSprite, 1, ""}, {manifests.ClassWorld, 0, "unknown_outcome"}} {
		t.Run(string(tc.class), func(t *testing.T) {
			b, n := newBench(t), 0
			b.call(tc.class, `{"path":"a"}`, count(&n))
			started, _, _ := strings.Cut(b.read(".lattice/calls/c1.jsonl"), "\n")
			b.write(".lattice/calls/c1.jsonl", started+"\n{\"state\":\"do") // killed while it wrote the end
			first, _, _ := strings.Cut(b.read(protocol.OutboxFile), "\n")
			b.write(protocol.OutboxFile, first+"\n") // and before it told anybody
			n = 0
			o := b.call(tc.class, `{"path":"a"}`, count(&n))
			if n != tc.runs {
				t.Errorf("ran %d times, want %d", n, tc.runs)
			}
			if tc.code != "" && (o.exit != protocol.ExitFailed || o.result.Error.Code != tc.code) {
				t.Errorf("exit %d, %+v; want %s", o.exit, o.result.Error, tc.code)
			}
		})
	}
}

func TestLargeResultGoesToAFile(t *testing.T) {
	b := newBench(t)
	o := b.call(manifests.ClassSprite, `{"path":"a"}`, func(context.Context, *skill.Call) (skill.Result, error) {
		return skill.Result{Data: map[string]string{"text": strings.Repeat("x", 300<<10)}}, nil
	})
	var ref struct {
		Path string
		Size int
	}
	if err := json.Unmarshal(o.result.Data, &ref); err != nil || ref.Size < 300<<10 || len(b.read(ref.Path)) != ref.Size {
		t.Errorf("data %.200s: %v", o.result.Data, err)
	}
}

// host serves checkpoints as a sprite's host does.
func host(t *testing.T, lines string) (socket string) {
	dir, err := os.MkdirTemp("", "sk") // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for line := range strings.Lines(lines) {
			w.Write([]byte(line))
			w.(http.Flusher).Flush()
		}
	})}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
	return filepath.Join(dir, "s")
}

const created = `{"type":"info","data":"Creating checkpoint..."}
{"type":"info","data":"  ID: v7"}
{"type":"complete","data":"Checkpoint v7 created successfully"}
`

// ask waits once and then returns the answer.
func ask(runs *int) skill.Func {
	return func(ctx context.Context, c *skill.Call) (skill.Result, error) {
		*runs++
		if c.Resume == nil {
			return skill.Result{}, c.Suspend(ctx, "PUSH", map[string]string{"ok": "boolean"},
				&protocol.ActionRequest{Action: "PUSH_BRANCH", Parameters: json.RawMessage(`{"branch":"b"}`)})
		}
		var in struct{ OK bool }
		err := c.Inputs(&in)
		return skill.Result{Data: in}, err
	}
}

func TestSuspendAndResume(t *testing.T) {
	for _, tc := range []struct{ name, lines, id string }{
		{"with a host", created, "v7"},
		{"with a friendly host", `{"type":"complete","checkpoint_id":"chk_9","data":"Checkpoint v1 created"}`, "chk_9"},
		{"without a host", "", "pending"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, runs := newBench(t), 0
			if tc.lines != "" {
				b.env.Socket = host(t, tc.lines)
			}
			o := b.call(manifests.ClassSprite, `{"path":"a"}`, ask(&runs))
			want := []string{"PHASE_STARTED", "ACTION_REQUEST", "WAITING"}
			if o.exit != protocol.ExitWaiting || o.result.Waiting == nil || o.result.Waiting.CheckpointID != tc.id || !cmp.Equal(o.types(), want) {
				t.Fatalf("exit %d, %+v, events %v", o.exit, o.result, o.types())
			}
			again := b.call(manifests.ClassSprite, `{"path":"a"}`, ask(&runs))
			if again.exit != protocol.ExitWaiting || again.result.Waiting.CheckpointID != tc.id || runs != 1 {
				t.Errorf("asked again: exit %d, %+v, %d runs", again.exit, again.result, runs)
			}
			b.write(protocol.ResumeFile, resumeFor("c0", "v7", true))
			if o := b.call(manifests.ClassSprite, `{"path":"a"}`, ask(&runs)); o.exit != protocol.ExitWaiting {
				t.Errorf("an answer to another call ended the wait: %+v", o.result)
			}
			id := tc.id
			if id == "pending" {
				id = "v7"
			}
			b.write(protocol.ResumeFile, resumeFor("c1", id, true))
			resumed := b.call(manifests.ClassSprite, `{"path":"a"}`, ask(&runs))
			if resumed.exit != 0 || string(resumed.result.Data) != `{"OK":true}` ||
				!cmp.Equal(resumed.types(), []string{"INFO", "PHASE_FINISHED"}) {
				t.Fatalf("resumed: exit %d, %+v, events %v", resumed.exit, resumed.result, resumed.types())
			}
			if !strings.Contains(b.read(protocol.MarkerFile), `"checkpoint_id":"`+id+`"`) {
				t.Errorf("marker: %s", b.read(protocol.MarkerFile))
			}
			runs = 0
			duplicate := b.call(manifests.ClassSprite, `{"path":"a"}`, ask(&runs))
			if runs != 0 || len(duplicate.events) != 0 || !cmp.Equal(duplicate.result, resumed.result) {
				t.Errorf("duplicate resume: %d runs, %+v", runs, duplicate.result)
			}
			b.write(protocol.ResumeFile, resumeFor("c1", id, false))
			if o := b.call(manifests.ClassSprite, `{"path":"a"}`, ask(&runs)); runs != 1 || string(o.result.Data) != `{"OK":false}` {
				t.Errorf("another answer: %d runs, %+v", runs, o.result)
			}
		})
	}
}

func resumeFor(call, checkpoint string, ok bool) string {
	raw, _ := json.Marshal(protocol.Resume{
		WorkItemID: "w", CheckpointID: checkpoint, Inputs: json.RawMessage(map[bool]string{true: `{"ok":true}`, false: `{"ok":false}`}[ok]),
		Context: protocol.ResumeContext{CallID: call},
	})
	return string(raw)
}

func TestAnswerToTheFirstPauseIsNoneToTheSecond(t *testing.T) {
	b := newBench(t)
	twice := func(ctx context.Context, c *skill.Call) (skill.Result, error) {
		return skill.Result{}, c.Suspend(ctx, "again", map[string]string{"ok": "boolean"}, nil)
	}
	b.call(manifests.ClassSprite, `{"path":"a"}`, twice)
	b.write(protocol.ResumeFile, resumeFor("c1", "v1", true))
	b.call(manifests.ClassSprite, `{"path":"a"}`, twice) // waits again
	ran := 0
	if o := b.call(manifests.ClassSprite, `{"path":"a"}`, count(&ran)); o.exit != protocol.ExitWaiting || ran != 0 {
		t.Errorf("exit %d, ran %d times; want to wait still", o.exit, ran)
	}
}

func TestFailedCheckpointIsNoPause(t *testing.T) {
	b, runs := newBench(t), 0
	b.env.Socket = host(t, `{"type":"info","data":"Creating"}`+"\n"+`{"type":"error","error":"disk full"}`+"\n"+`{"type":"complete","data":"Checkpoint v1 created"}`+"\n")
	o := b.call(manifests.ClassSprite, `{"path":"a"}`, ask(&runs))
	if o.exit != protocol.ExitFailed || o.result.Error.Code != "checkpoint_failed" || !strings.Contains(o.result.Error.Message, "disk full") {
		t.Errorf("exit %d, %+v", o.exit, o.result.Error)
	}
}

func TestErrorEventNamesItsCheckpoint(t *testing.T) {
	b := newBench(t)
	b.env.Socket = host(t, created)
	o := b.call(manifests.ClassSprite, `{"path":"a"}`, func(_ context.Context, c *skill.Call) (skill.Result, error) {
		return skill.Result{}, c.Emit(protocol.Error{Message: "broken", Details: json.RawMessage(`{"phase":"x"}`)})
	})
	if got := string(o.events[1].Payload); !strings.Contains(got, `"checkpoint_id":"v7"`) || !strings.Contains(got, `"phase":"x"`) {
		t.Errorf("payload %s", got)
	}
}

func TestNothingSpeaksAfterTheResult(t *testing.T) {
	b := newBench(t)
	var left *skill.Call
	b.call(manifests.ClassRead, `{"path":"a"}`, func(_ context.Context, c *skill.Call) (skill.Result, error) {
		left = c
		return skill.Result{}, nil
	})
	if err := left.Emit(protocol.Info{Message: "late"}); err == nil {
		t.Error("an event after the result was accepted")
	}
}
