package session_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/session"
	"github.com/spritekit/lattice/spritekit/skill"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// talk is one session and its two ends.
type talk struct {
	t     *testing.T
	dir   string // the workspace
	in    *io.PipeWriter
	lines chan string // closed at its end
	exit  chan int
	stop  context.CancelFunc
}

// begin starts a session in which fs.read, which only reads, and fs.write, which writes, do what the test wants.
func begin(t *testing.T, o session.Options, read, write skill.Func) *talk {
	t.Helper()
	k := &talk{t: t, dir: t.TempDir(), lines: make(chan string, 10_000), exit: make(chan int, 1)}
	o.Skills = []skill.Skill{{Name: "fs.read", Run: read}, {Name: "fs.write", Run: write}}
	o.Environ = append([]string{"LATTICE_WORKSPACE=" + k.dir, "LATTICE_SOCKET=", "LATTICE_SPRITE_ID=s", "PATH=" + os.Getenv("PATH")}, o.Environ...)
	o.Run = func(ctx context.Context, p session.Program) (int, error) {
		cmd := exec.CommandContext(ctx, p.Argv[0], p.Argv[1:]...)
		cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Dir, p.Env, strings.NewReader(string(p.Stdin)), p.Stdout, p.Stderr
		err := cmd.Run()
		if cmd.ProcessState == nil {
			return 0, err
		}
		if code := cmd.ProcessState.ExitCode(); code >= 0 {
			return code, nil
		}
		return 137, nil
	}
	stdin, in := io.Pipe()
	stdout, out := io.Pipe()
	k.in = in
	ctx, stop := context.WithCancel(t.Context())
	k.stop = stop
	go func() {
		exit, err := session.Serve(ctx, o, stdin, out)
		if err != nil {
			t.Error(err)
		}
		stdin.CloseWithError(io.ErrClosedPipe)
		out.Close()
		k.exit <- exit
	}()
	go func() {
		scanner := bufio.NewScanner(stdout)
		scanner.Buffer(nil, protocol.MaxLine)
		for scanner.Scan() {
			k.lines <- scanner.Text()
		}
		close(k.lines)
	}()
	t.Cleanup(func() { stop(); in.Close(); stdout.Close() })
	return k
}

func (k *talk) send(lines ...string) {
	k.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(k.in, line+"\n"); err != nil {
			k.t.Fatal(err)
		}
	}
}

// until reads lines up to one that holds word, and returns all of them.
func (k *talk) until(word string) []string {
	k.t.Helper()
	var all []string
	for line := range k.lines {
		if all = append(all, line); strings.Contains(line, word) {
			return all
		}
	}
	k.t.Fatalf("%q never came; there was %q", word, all)
	return nil
}

// end closes stdin and returns the lines that are left and the exit code.
func (k *talk) end() (rest []string, exit int) {
	k.in.Close()
	for line := range k.lines {
		rest = append(rest, line)
	}
	return rest, <-k.exit
}

// resultOf finds the result line of a call.
func resultOf(t *testing.T, lines []string, id string) protocol.SessionResult {
	t.Helper()
	var found *protocol.SessionResult
	for _, line := range lines {
		if d, ok := protocol.DecodeSessionLine([]byte(line)); ok && d.Result != nil && d.Result.CallID == id {
			if found != nil {
				t.Errorf("call %s has two results", id)
			}
			found = d.Result
		}
	}
	if found == nil {
		t.Fatalf("there is no result of %s in %q", id, lines)
	}
	return *found
}

func callOf(id, name, more string) string {
	return fmt.Sprintf(`{"call_id":%q,"skill":%q,"input":{"path":"a"}%s}`, id, name, more)
}

func good(context.Context, *skill.Call) (skill.Result, error) {
	return skill.Result{Data: map[string]any{"done": true}}, nil
}

// A call's lines all name it, its events are in the outbox in the same order, and its result comes last, with the token
// that it was sent with and the stretch of the outbox that the session wrote.
func TestCalls(t *testing.T) {
	k := begin(t, session.Options{Environ: []string{"LATTICE_CALL_ID=other", "LATTICE_INPUT_PATH=other", "LATTICE_RUN_ID=other"}},
		func(_ context.Context, c *skill.Call) (skill.Result, error) {
			fmt.Fprint(c.Stderr, "for people ", string([]byte{0xC3}))
			fmt.Fprint(c.Stderr, string([]byte{0xA4}), "\n")
			return skill.Result{Data: map[string]any{"run": c.RunID, "item": c.WorkItemID, "key": c.IdempotencyKey, "sprite": c.SpriteID, "other": strings.Contains(string(c.Input), "other"), "all": c.Grants.All}}, nil
		}, good)
	k.send(callOf("c1", "fs.read", `,"run_id":"r","idempotency_key":"i","permissions":["fs:read"],"token":"t\u00e4"`))
	lines := k.until(`"ok"`)
	if lines[0] != `{"session":"ready","protocol_version":"v1","parallel":1}` {
		t.Errorf("the first line is %s", lines[0])
	}
	r := resultOf(t, lines, "c1")
	if want := `{"all":false,"item":"r","key":"i","other":false,"run":"r","sprite":"s"}`; string(r.Data) != want || r.Exit != 0 || r.Token != "tä" || r.Events != 2 {
		t.Errorf("result = %+v with data %s, want %s", r, r.Data, want)
	}
	said := ""
	for _, line := range lines[1:] {
		if !strings.Contains(line, `"call_id":"c1"`) {
			t.Errorf("a line names no call: %s", line)
		}
		if d, ok := protocol.DecodeSessionLine([]byte(line)); ok && d.Output != nil && d.Output.Stderr != nil {
			said += *d.Output.Stderr
		}
	}
	if said != "for people ä\n" {
		t.Errorf("stderr came as %q", said)
	}
	rest, exit := k.end()
	if len(rest) > 0 || exit != 0 {
		t.Errorf("after the end of input: %q and exit %d", rest, exit)
	}
	outbox, err := os.ReadFile(filepath.Join(k.dir, protocol.OutboxFile))
	if err != nil {
		t.Fatal(err)
	}
	if r.Outbox == nil || *r.Outbox != (protocol.Stretch{From: 0, To: int64(len(outbox))}) {
		t.Errorf("outbox = %+v of %d bytes", r.Outbox, len(outbox))
	}
	at := 0
	for _, line := range lines {
		if body, ok := strings.CutPrefix(line, protocol.Prefix); ok {
			i := strings.Index(string(outbox)[at:], body)
			if i < 0 {
				t.Fatalf("the outbox lacks %s, or has it elsewhere", body)
			}
			at += i
		}
	}
}

// Lines that are no calls are refused by line and pointer, and end nothing.
func TestRefusals(t *testing.T) {
	k := begin(t, session.Options{}, good, good)
	huge := `{"call_id":"h","skill":"fs.read","input":{"path":"` + strings.Repeat("x", 17<<20) + `"}}`
	for i, tt := range []struct{ line, want string }{
		{`garbage`, `"line":1,"problems":[{"pointer":"",`},
		{`[]`, `"line":2,"problems":[{"pointer":"","message":"is not a JSON object"}]`},
		{`{"call_id":"c1"}`, `"call_id":"c1","problems":[{"pointer":"/skill",`},
		{`{"call_id":"c1","skill":"fs.read","inptu":{}}`, `"pointer":"/inptu"`},
		{`{"call_id":"c1","skill":"fs.read","input":[]}`, `"pointer":"/input"`},
		{`{"call_id":"../c1","skill":"fs.read"}`, `"pointer":"/call_id"`},
		{`{"call_id":"c1","skill":"fs.read","timeout_s":-1}`, `"pointer":"/timeout_s"`},
		{`{"call_id":"c1","call_id":"c2","skill":"fs.read"}`, `"pointer":"/call_id"`},
		{`{"cancel":"c1","skill":"fs.read"}`, `"pointer":"/skill"`},
		{"{\"call_id\":\"\xff\"}", `is not UTF-8`},
		{huge, `is longer than`},
	} {
		k.send(tt.line)
		lines := k.until(`"refused"`)
		if got := lines[len(lines)-1]; !strings.Contains(got, tt.want) || !strings.Contains(got, fmt.Sprintf(`"line":%d,`, i+1)) {
			t.Errorf("%.60s: %s, want %s", tt.line, got, tt.want)
		}
	}
	k.send("", `{"cancel":"unknown"}`, callOf("c1", "fs.read", ""))
	if r := resultOf(t, k.until(`"ok"`), "c1"); !r.OK {
		t.Errorf("the call after all that = %+v", r)
	}
}

// What is wrong with one call is told in its own result.
func TestFailures(t *testing.T) {
	k := begin(t, session.Options{}, func(_ context.Context, c *skill.Call) (skill.Result, error) {
		if c.RunID == "panic" {
			panic("at the disco")
		}
		return skill.Result{}, fault.NotFound("not_found", "nothing there")
	}, good)
	for id, tt := range map[string]struct {
		name, more string
		code       string
		exit       int
	}{
		"c1": {"fs.read", "", "not_found", 3},
		"c2": {"fs.read", `,"run_id":"panic"`, "internal", 70},
		"c3": {"fs.write", "", "bad_input", 2},
		"c4": {"fs.write", `,"permissions":[]`, "bad_input", 2},
		"c5": {"fs.read", `,"permissions":[]`, "permission_denied", 4},
		"c6": {"no.such", "", "skill_missing", 3},
		"c7": {"../no", "", "skill_missing", 127},
	} {
		k.send(callOf(id, tt.name, tt.more))
		r := resultOf(t, k.until(`"ok"`), id)
		if r.OK || r.Error.Code != tt.code || r.Exit != tt.exit {
			t.Errorf("%s = %+v, %+v; want %s and %d", tt.name, r, r.Error, tt.code, tt.exit)
		}
	}
	if _, exit := k.end(); exit != 0 {
		t.Errorf("exit = %d", exit)
	}
}

// Calls run in the order in which they came, one at a time, or side by side up to the limit. A cancelled one gets its
// result all the same: at once and without being begun where its turn has not come. The others go on.
func TestSideBySide(t *testing.T) {
	begun, release := make(chan string), make(chan struct{})
	waits := func(ctx context.Context, c *skill.Call) (skill.Result, error) {
		begun <- c.ID
		select {
		case <-release:
			return skill.Result{}, nil
		case <-ctx.Done():
			return skill.Result{}, ctx.Err()
		}
	}
	k := begin(t, session.Options{Parallel: 2}, waits, waits)
	k.send(callOf("c1", "fs.read", ""), callOf("c2", "fs.read", ""), callOf("c3", "fs.read", ""), callOf("c4", "fs.read", ""))
	seen := map[string]bool{<-begun: true, <-begun: true}
	if !seen["c1"] || !seen["c2"] {
		t.Fatalf("first began %v", seen)
	}
	k.send(callOf("c1", "fs.read", "")) // under way: refused
	k.until(`"refused"`)
	k.send(`{"cancel":"c3"}`, `{"cancel":"c1"}`)
	for _, id := range []string{"c3", "c1"} { // what has not begun is answered at once
		if r := resultOf(t, k.until(`"ok"`), id); r.Exit != 130 || r.Error == nil || r.Error.Code != "cancelled" {
			t.Errorf("the cancelled call = %+v", r)
		}
	}
	if got := <-begun; got != "c4" {
		t.Errorf("then began %s", got)
	}
	close(release)
	rest, exit := k.end()
	for id, want := range map[string]int{"c2": 0, "c4": 0} {
		if r := resultOf(t, rest, id); r.Exit != want {
			t.Errorf("%s = %+v", id, r)
		}
	}
	if exit != 0 {
		t.Errorf("exit = %d", exit)
	}
}

// At the end of input, and at a signal, what was begun comes to its end.
func TestEnds(t *testing.T) {
	begun := make(chan struct{}, 1)
	k := begin(t, session.Options{}, func(ctx context.Context, _ *skill.Call) (skill.Result, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return skill.Result{}, ctx.Err()
	}, good)
	k.send(callOf("c1", "fs.read", `,"timeout_s":0.01`))
	<-begun
	rest, exit := k.end()
	if r := resultOf(t, rest, "c1"); exit != 0 || r.Exit != 124 {
		t.Errorf("a call out of time at the end of input = %+v, exit %d", r, exit)
	}

	k = begin(t, session.Options{}, func(ctx context.Context, _ *skill.Call) (skill.Result, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return skill.Result{}, ctx.Err()
	}, good)
	k.send(callOf("c1", "fs.read", ""), callOf("c2", "fs.write", ""), callOf("c2", "fs.read", ""))
	<-begun
	k.until(`"refused"`) // so c2 has been taken
	k.stop()
	rest, exit = k.end()
	for _, id := range []string{"c1", "c2"} {
		if r := resultOf(t, rest, id); exit != 130 || r.Exit != 130 || r.Events != map[string]int{"c1": 2}[id] {
			t.Errorf("a call at a signal = %+v, exit %d", r, exit)
		}
	}
}

// Without a listener what has begun comes to its end, in the outbox, and nothing else is begun.
func TestNobodyListens(t *testing.T) {
	k := begin(t, session.Options{Parallel: 2}, good, good)
	k.until(`"ready"`)
	stdin, in := io.Pipe()
	begun, release := make(chan struct{}), make(chan struct{})
	out := &deaf{}
	exit := make(chan error, 1)
	waits := func(_ context.Context, c *skill.Call) (skill.Result, error) {
		begun <- struct{}{}
		<-release
		return skill.Result{}, c.Emit(protocol.Info{Message: strings.Repeat("x", 40_000), Kind: "k"})
	}
	go func() {
		_, err := session.Serve(t.Context(), session.Options{
			Skills: []skill.Skill{{Name: "fs.read", Run: waits}}, Environ: []string{"LATTICE_WORKSPACE=" + k.dir, "LATTICE_SOCKET="},
		}, stdin, out)
		exit <- err
	}()
	if _, err := io.WriteString(in, callOf("c1", "fs.read", "")+"\n"+callOf("c2", "fs.read", "")+"\n"); err != nil {
		t.Fatal(err)
	}
	<-begun
	out.closed.Store(true)
	close(release)
	if err := <-exit; !errors.Is(err, io.ErrClosedPipe) { // though stdin goes on; c2 would wait to begin
		t.Errorf("the session ended with %v", err)
	}
	in.Close()
	kept, err := os.ReadFile(filepath.Join(k.dir, protocol.OutboxFile))
	if n := strings.Count(string(kept), `"call_id":"c1"`); err != nil || !strings.Contains(string(kept), `"success":true`) || strings.Contains(string(kept), "c2") {
		t.Errorf("the outbox has %d lines of c1 (%v): %.300s", n, err, kept)
	}
	k.end()
}

// deaf is a stdout that nobody reads any more once it is closed.
type deaf struct{ closed atomic.Bool }

func (d *deaf) Write(b []byte) (int, error) {
	if d.closed.Load() {
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

// After a call that waits nothing more is taken: the next thing is a boundary.
func TestWaitingEndsTheSession(t *testing.T) {
	k := begin(t, session.Options{Parallel: 2}, good, func(ctx context.Context, c *skill.Call) (skill.Result, error) {
		return skill.Result{}, c.Suspend(ctx, "a person", map[string]string{"yes": "boolean"}, nil)
	})
	k.send(`{"call_id":"c1","skill":"fs.write","input":{"path":"a","content":"b"}}`)
	lines := k.until(`"ok"`)
	r := resultOf(t, lines, "c1")
	if r.Exit != 75 || r.Waiting == nil {
		t.Errorf("result = %+v", r)
	}
	if exit := <-k.exit; exit != 75 {
		t.Errorf("the session ended with %d, want 75", exit)
	}
}

// A session that nobody uses ends; one that says nothing says that it lives.
func TestIdle(t *testing.T) {
	k := begin(t, session.Options{Idle: 50 * time.Millisecond}, good, good)
	if exit := <-k.exit; exit != 0 {
		t.Errorf("an idle session ended with %d", exit)
	}
	k = begin(t, session.Options{Keepalive: time.Millisecond}, good, good)
	k.until(`{"session":"keepalive"}`)
}

// What others dropped in is a process per call. Its say is passed on as its own, whatever it claims; its death is its own.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	program := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const event = `LATTICE_EVENT {"protocol_version":"v1","event_type":"INFO","call_id":"%s","payload":{"message":"m"}}`
	program("x.good", `cat; echo; echo "`+strings.ReplaceAll(fmt.Sprintf(event, "$LATTICE_CALL_ID"), `"`, `\"`)+`"
echo '`+fmt.Sprintf(event, "c0")+`'; echo 'LATTICE_EVENT {"event_type":"INFO","payload":{"message":"nobody"}}'; echo plain; echo people >&2
echo '{"ok":true,"skill":"x.good","data":{"n":1},"exit":3,"token":"guessed"}'; echo '{"ok":true,"skill":"x.good","data":{"run":"'$LATTICE_RUN_ID'","grants":"'$LATTICE_PERMISSIONS'"}}'
`)
	program("x.dies", `echo '{"ok":true,"skill":"x.dies","data":{}}'; kill -9 $$`)
	program("x.mute", `exit 5`)
	if err := os.WriteFile(filepath.Join(dir, "x.broken"), []byte("#!/nowhere\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	k := begin(t, session.Options{Self: filepath.Join(dir, "spritekit")}, good, good)
	k.send(callOf("c1", "x.good", `,"run_id":"r","permissions":["a","b"],"token":"t"`))
	lines := k.until(`"ok"`)
	r := resultOf(t, lines, "c1")
	if string(r.Data) != `{"run":"r","grants":"a,b"}` || r.Exit != 0 || r.Token != "t" {
		t.Errorf("result = %+v with %s", r, r.Data)
	}
	var own, passed []string
	for _, line := range lines {
		if strings.HasPrefix(line, protocol.Prefix) {
			own = append(own, line)
		} else if d, ok := protocol.DecodeSessionLine([]byte(line)); ok && d.Output != nil && d.Output.Stdout != nil {
			passed = append(passed, *d.Output.Stdout)
		}
	}
	if len(own) != 1 || own[0] != fmt.Sprintf(event, "c1") {
		t.Errorf("events of its own: %q", own)
	}
	want := []string{`{"path":"a"}`, fmt.Sprintf(event, "c0"), `LATTICE_EVENT {"event_type":"INFO","payload":{"message":"nobody"}}`, "plain"}
	if fmt.Sprint(passed) != fmt.Sprint(want) {
		t.Errorf("passed on: %q, want %q", passed, want)
	}
	for id, tt := range map[string]struct {
		name, code string
		exit       int
	}{"c2": {"x.mute", "no_result", 5}, "c3": {"x.broken", "skill_missing", 126}, "c4": {"x.dies", "", 137}} {
		k.send(callOf(id, tt.name, ""))
		r := resultOf(t, k.until(`"ok"`), id)
		if code := ""; r.Exit != tt.exit || r.Error != nil && r.Error.Code != tt.code || r.Error == nil && tt.code != code {
			t.Errorf("%s = %+v %+v", tt.name, r, r.Error)
		}
	}
}

// However many speak at once, lines stay whole and nothing is lost.
func TestLinesAreWhole(t *testing.T) {
	const calls, events = 40, 50
	k := begin(t, session.Options{Parallel: 16}, func(_ context.Context, c *skill.Call) (skill.Result, error) {
		for i := range events {
			if err := c.Emit(protocol.Info{Message: strings.Repeat("x", i*37), Kind: "k"}); err != nil {
				return skill.Result{}, err
			}
			fmt.Fprintln(c.Stderr, strings.Repeat("y", i*11))
		}
		return skill.Result{}, nil
	}, good)
	go func() {
		for i := range calls {
			k.send(callOf(fmt.Sprintf("c%d", i), "fs.read", ""))
		}
		k.in.Close()
	}()
	counts := map[string]int{}
	for line := range k.lines {
		var v struct {
			CallID string `json:"call_id"`
		}
		body := strings.TrimPrefix(line, protocol.Prefix)
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatalf("a line is no JSON: %v: %.200s", err, line)
		}
		if body != line {
			counts[v.CallID]++
		}
	}
	for i := range calls {
		if n := counts[fmt.Sprintf("c%d", i)]; n != events+2 {
			t.Errorf("call %d has %d events, want %d", i, n, events+2)
		}
	}
}

// Calls that only read leave no journal behind and cost little; an id still names one call.
func TestReadsAreLight(t *testing.T) {
	k := begin(t, session.Options{}, good, good)
	const calls, most = 200, 700 // allocations of one call, the test's own included
	made := func(from int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range calls {
			k.send(callOf(fmt.Sprintf("c%d", from+i), "fs.read", ""))
			k.until(`"ok":true`)
		}
		runtime.ReadMemStats(&after)
		return (after.Mallocs - before.Mallocs) / calls
	}
	made(0)
	if n := made(calls); n > most {
		t.Errorf("%d allocations for one call, want at most %d", n, most)
	}
	if files, err := os.ReadDir(filepath.Join(k.dir, protocol.CallsDir)); len(files) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%d journals are left (%v)", len(files), err)
	}
	k.send(`{"call_id":"c7","skill":"fs.read","input":{"path":"another"}}`)
	if r := resultOf(t, k.until(`"ok"`), "c7"); r.Error == nil || r.Error.Code != "call_id_reused" || r.Exit != 2 {
		t.Errorf("an id that was used for another input = %+v", r)
	}
	k.send(`{"call_id":"c7","skill":"fs.write","input":{"path":"a","content":"b"}}`) // at once: the id is free again
	if r := resultOf(t, k.until(`"ok"`), "c7"); r.Error == nil || r.Error.Code != "call_id_reused" || r.Exit != 2 {
		t.Errorf("an id that was used for another skill = %+v", r)
	}
}
