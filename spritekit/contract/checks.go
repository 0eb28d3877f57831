package contract

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func checkResult(t T, target Target) {
	o := newPlace(t, target).runCall(target.Input)
	if !o.HasLast {
		t.Fatalf("stdout %s does not end in a result; stderr is %s", shortenText(o.Stdout), shortenText(o.Stderr))
	}
	want := protocol.ExitOK
	if o.Result.Waiting != nil {
		want = protocol.ExitWaiting
	}
	if !o.Result.OK || o.Exit != want {
		t.Errorf("exit %d and the result %s; want exit %d and ok (the workspace and the input must be fit for it; stderr: %s)", o.Exit, o.lastLine(), want, o.Stderr)
	}
	for _, w := range o.Result.Warnings {
		if w.Code == protocol.CodeNoResult {
			t.Errorf("%s: %s", w.Code, w.Message)
		}
	}
	if o.Result.Skill != target.Skill {
		t.Errorf("result names skill %q, want %q", o.Result.Skill, target.Skill)
	}
	if o.Result.Events != len(o.Events) {
		t.Errorf("result counts %d events, stdout has %d", o.Result.Events, len(o.Events))
	}
	last := ""
	for _, e := range o.Events {
		if e.SpriteID != "sprite-1" || e.WorkItemID != "item-1" || e.CallID != "call-1" || e.EventID == "" {
			t.Errorf("event %s does not carry the ids of its call", e.Raw)
		}
		if e.Timestamp <= last {
			t.Errorf("timestamp %s does not follow %s", e.Timestamp, last)
		}
		last = e.Timestamp
	}
}

func checkOutbox(t T, target Target) {
	p := newPlace(t, target)
	o := p.runCall(target.Input)
	recorded := p.readOutbox()
	if len(recorded) != len(o.Events) {
		t.Fatalf("the outbox holds %d events, stdout %d", len(recorded), len(o.Events))
	}
	for i := range recorded {
		if !bytes.Equal(recorded[i].Raw, o.Events[i].Raw) {
			t.Errorf("event %d differs:\noutbox %s\nstdout %s", i, recorded[i].Raw, o.Events[i].Raw)
		}
	}
}

func checkReplay(t T, target Target) {
	p := newPlace(t, target)
	first := p.runCall(target.Input)
	again := p.runCall(target.Input)
	switch {
	case !again.HasLast || again.Exit != first.Exit:
		t.Errorf("the same call again: exit %d, stdout %s; want exit %d, and the result once more", again.Exit, shortenText(again.Stdout), first.Exit)
	case target.Reads || first.Result.Waiting != nil:
	case len(again.Events) > 0 || !bytes.Equal(again.Result.Data, first.Result.Data):
		t.Errorf("the same call again: stdout %s; want the recorded result and no events", shortenText(again.Stdout))
	}
}

func checkReuse(t T, target Target) {
	var input map[string]json.RawMessage
	if err := json.Unmarshal([]byte(target.Input), &input); err != nil || len(input) == 0 {
		t.Skip("the target's input has no member to change")
	}
	p := newPlace(t, target)
	p.runCall(target.Input)
	for name, value := range input {
		var text string
		if json.Unmarshal(value, &text) != nil {
			continue
		}
		changed, err := json.Marshal(text + "-other")
		if err != nil {
			t.Fatalf("%v", err)
		}
		input[name] = changed
		raw, err := json.Marshal(input)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if o := p.runCall(string(raw)); o.Exit != protocol.ExitBadInput || o.Result.OK {
			t.Errorf("the id of an earlier call with stdin %s: exit %d, stdout %s; want exit %d", shortenText(string(raw)), o.Exit, shortenText(o.Stdout), protocol.ExitBadInput)
		}
		return
	}
	t.Skip("the target's input has no string to change")
}

func checkUnknownKey(t T, target Target) {
	p := newPlace(t, target)
	comma := ","
	if strings.TrimSpace(target.Input) == "{}" {
		comma = ""
	}
	input := strings.Replace(target.Input, "{", `{"no_such_input":1`+comma, 1)
	o := p.runCall(input)
	p.checkRefused(fmt.Sprintf("stdin %s", shortenText(input)), o, protocol.ExitBadInput, "bad_input")
	if o.HasLast && o.Result.Error != nil && !strings.Contains(o.Result.Error.Message, "/no_such_input") {
		t.Errorf("message %q does not point to /no_such_input", o.Result.Error.Message)
	}
}

func checkMalformed(t T, target Target) {
	for _, input := range []string{`{`, `[]`, `"x"`, `{} {}`, `{"a":1,"a":2}`, "\xff\xfe", `nul`} {
		p := newPlace(t, target)
		p.checkRefused(fmt.Sprintf("stdin %q", input), p.runCall(input), protocol.ExitBadInput, "bad_input")
	}
}

func checkEmpty(t T, target Target) {
	empty, object := newPlace(t, target).runCall(""), newPlace(t, target).runCall("{}")
	if empty.Exit != object.Exit || !empty.HasLast || empty.Result.OK != object.Result.OK {
		t.Errorf("empty stdin: exit %d, stdout %s; stdin {}: exit %d, stdout %s; want a result in both cases, and the same", empty.Exit, shortenText(empty.Stdout), object.Exit, shortenText(object.Stdout))
	}
}

func checkPermissions(t T, target Target) {
	if len(target.Permissions) == 0 {
		t.Skip("the target needs no permission")
	}
	p := newPlace(t, target)
	o := p.runCall(target.Input, "LATTICE_PERMISSIONS=")
	p.checkRefused("without any permission", o, protocol.ExitDenied, "permission_denied")
	for _, name := range target.Permissions {
		if o.HasLast && o.Result.Error != nil && !strings.Contains(o.Result.Error.Message, name) {
			t.Errorf("message %q does not name %s", o.Result.Error.Message, name)
		}
	}
	if o := p.runCall(target.Input, "LATTICE_PERMISSIONS="+strings.Join(target.Permissions, ",")); !o.Result.OK {
		t.Errorf("with its permissions: exit %d, stdout %s", o.Exit, shortenText(o.Stdout))
	}
}

func checkSignal(t T, target Target) {
	if target.Slow == "" {
		t.Skip("the target names no slow input")
	}
	p := newPlace(t, target)
	ctx, cancel := context.WithTimeout(context.Background(), p.callTimeout())
	defer cancel()
	cmd := p.newCommand(ctx)
	cmd.Stdin = strings.NewReader(target.Slow)
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v", err)
	}
	reader := bufio.NewReader(stdout)
	first, err := reader.ReadString('\n') // PHASE_STARTED: it is at work
	if err == nil {
		err = terminateGroup(cmd)
	}
	rest, rerr := io.ReadAll(reader)
	werr := cmd.Wait()
	if err != nil || rerr != nil || ctx.Err() != nil {
		t.Fatalf("first line %q: %v, %v, %v", first, err, rerr, werr)
	}
	o := p.newOutcome(cmd.ProcessState.ExitCode(), first+string(rest), "")
	if o.Exit != protocol.ExitCancelled || !o.HasLast || o.Result.OK || o.Result.Error.Code != "cancelled" {
		t.Errorf("exit %d, stdout %s; want %d and a result", o.Exit, shortenText(o.Stdout), protocol.ExitCancelled)
	}
	finished := false
	for _, e := range o.Events {
		finished = finished || e.Type == protocol.TypePhaseFinished && strings.Contains(string(e.Payload), `"success":false`)
	}
	if !finished {
		t.Errorf("stdout %s has no PHASE_FINISHED without success", shortenText(o.Stdout))
	}
}

func checkOutputs(t T, target Target) {
	if m, builtin := manifests.Lookup(target.Skill); target.Manifest == nil && builtin {
		target.Manifest = &m
	}
	if target.Manifest == nil {
		t.Skip("the target has no manifest")
	}
	o := newPlace(t, target).runCall(target.Input)
	if !o.HasLast || !o.Result.OK || o.Result.Waiting != nil {
		t.Skip("the call gives no data")
	}
	var data map[string]json.RawMessage
	if err := json.Unmarshal(o.Result.Data, &data); err != nil {
		t.Fatalf("data %s is no object: %v", o.Result.Data, err)
	}
	if reference, spilled := data["sha256"]; spilled && data["path"] != nil && len(data) == 3 {
		t.Skip("the data went to a file: " + string(reference))
	}
	for _, problem := range target.Manifest.CheckOutput(data) {
		t.Errorf("data %s: %s %s", o.Result.Data, problem.Pointer, problem.Message)
	}
}
