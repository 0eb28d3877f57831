package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a skill of a test: its manifest and what it does.
func served(t *testing.T, manifest string, run skill.Func) Skill {
	t.Helper()
	m, err := manifests.ParseSkill([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return Skill{Manifest: m, Serve: func(ctx context.Context, env skill.Env, streams skill.IO) int {
		return skill.Serve(ctx, skill.Skill{Name: m.Name, Run: run}, m, env, streams)
	}}
}

// sprite is a workspace, and the environment of calls in it.
func sprite(t *testing.T) (dir string, env skill.Env) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir, skill.ParseEnv([]string{"LATTICE_WORKSPACE=" + dir, "LATTICE_SOCKET=", "LATTICE_PERMISSIONS=*", "LATTICE_CALL_ID=of-another", "LATTICE_INPUT_TEXT=of another"})
}

// connect serves the skills to a client of the same process.
func connect(t *testing.T, list []Skill, o Options, client *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	session, _ := connectUntil(t, list, o, client)
	return session
}

// connectUntil is connect with a function that ends both sides and waits for them.
func connectUntil(t *testing.T, list []Skill, o Options, client *sdk.ClientOptions) (session *sdk.ClientSession, end func()) {
	t.Helper()
	if o.Stderr == nil {
		o.Stderr = t.Output()
	}
	s, err := New(list, o)
	if err != nil {
		t.Fatal(err)
	}
	near, far := sdk.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.server.Run(ctx, far) }()
	session, err = sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, client).Connect(t.Context(), near, nil)
	if err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() { session.Close(); cancel(); <-ended })
	t.Cleanup(end)
	return session, end
}

// result is what a model sees of a call.
type result struct {
	protocol.Result
	failed bool
	line   string
}

func call(t *testing.T, session *sdk.ClientSession, params *sdk.CallToolParams) result {
	t.Helper()
	res, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Fatalf("call %s: %v", params.Name, err)
	}
	return read(t, res)
}

func read(t *testing.T, res *sdk.CallToolResult) result {
	t.Helper()
	line, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Content) != 1 {
		t.Fatalf("%d blocks of content, want one text", len(res.Content))
	}
	var content, structured any
	if err := errors.Join(json.Unmarshal([]byte(res.Content[0].(*sdk.TextContent).Text), &content), json.Unmarshal(line, &structured)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(content, structured); diff != "" {
		t.Errorf("the text is not the structured content: %s", diff)
	}
	r, ok := protocol.DecodeResult(line)
	if !ok {
		t.Fatalf("the structured content is no result: %s", line)
	}
	return result{r, res.IsError, string(line)}
}

const echo = `{"name":"demo.echo","description":"Say it again.","inputs":[{"name":"text","type":"string","required":true}],
	"outputs":[{"name":"text","type":"string","required":true}],"permissions":["fs:read"],"side_effect":"sprite"}`

func says(_ context.Context, c *skill.Call) (skill.Result, error) {
	var in struct {
		Text string `json:"text"`
	}
	if err := c.Bind(&in); err != nil {
		return skill.Result{}, err
	}
	switch in.Text {
	case "fail":
		return skill.Result{}, fault.Failed("broken", "it broke").WithHint("mend it")
	case "panic":
		panic("at the disco")
	case "large":
		in.Text = strings.Repeat("x", MaxResult)
	case "null":
		return skill.Result{}, nil
	case "wait":
		return skill.Result{}, c.Suspend(context.Background(), "asked", map[string]string{"answer": "string"}, nil)
	}
	return skill.Result{Data: in}, nil
}

func TestCallsAnswerWithTheResultLine(t *testing.T) {
	dir, env := sprite(t)
	session := connect(t, []Skill{served(t, echo, says)}, Options{Env: env}, nil)
	tests := []struct {
		name      string
		arguments any
		code      string // of the error
		want      string // part of the line
	}{
		{"ok", map[string]any{"text": "hi"}, "", `"data":{"text":"hi"}`},
		{"failure", map[string]any{"text": "fail"}, "broken", `"hint":"mend it"`},
		{"panic", map[string]any{"text": "panic"}, "internal", "panicked"},
		{"survived", map[string]any{"text": "still here"}, "", "still here"},
		{"no input", nil, "bad_input", "/text is required"},
		{"unknown member", map[string]any{"text": "x", "txt": "y"}, "bad_input", "/txt is not an input of demo.echo"},
		{"wrong type", map[string]any{"text": 1}, "bad_input", "/text is an integer, want string"},
		{"member given twice", json.RawMessage(`{"text":"a","text":"b"}`), "bad_input", "given twice"},
		{"no object", json.RawMessage(`[1]`), "bad_input", "not a JSON object"},
		{"output against the manifest", map[string]any{"text": "null"}, "bad_output", "/text is required"},
		{"waiting", map[string]any{"text": "wait"}, "", `"waiting":{"checkpoint_id":"pending"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := call(t, session, &sdk.CallToolParams{Name: "demo_echo", Arguments: test.arguments})
			code := ""
			if r.Error != nil {
				code = r.Error.Code
			}
			if code != test.code || r.failed != (test.code != "") || !strings.Contains(r.line, test.want) {
				t.Errorf("call = %s, isError %v; want code %q and %s", r.line, r.failed, test.code, test.want)
			}
			if r.CallID == "of-another" {
				t.Error("the call took the id of the server's own environment")
			}
		})
	}
	t.Run("unknown tool", func(t *testing.T) {
		if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "demo_none"}); err == nil {
			t.Error("a tool that is not offered was called")
		}
	})
	t.Run("large", func(t *testing.T) {
		r := call(t, session, &sdk.CallToolParams{Name: "demo_echo", Arguments: map[string]any{"text": "large"}})
		var ref struct{ Path string }
		if err := json.Unmarshal(r.Data, &ref); err != nil || len(r.line) > MaxResult || len(r.Warnings) != 1 {
			t.Fatalf("call = %.300s, %v", r.line, err)
		}
		data, err := os.ReadFile(filepath.Join(dir, ref.Path))
		if err != nil || !strings.Contains(string(data), `{"text":"xxxx`) {
			t.Errorf("the data is not in %s: %v", ref.Path, err)
		}
	})
}

func TestCallIDMakesACallOnce(t *testing.T) {
	_, env := sprite(t)
	times := 0
	session := connect(t, []Skill{served(t, echo, func(ctx context.Context, c *skill.Call) (skill.Result, error) {
		times++
		return says(ctx, c)
	})}, Options{Env: env}, nil)
	params := &sdk.CallToolParams{Name: "demo_echo", Arguments: map[string]any{"text": "x"}}
	if a, b := call(t, session, params), call(t, session, params); a.CallID == b.CallID || times != 2 {
		t.Errorf("two calls: ids %s and %s, done %d times; want two of each", a.CallID, b.CallID, times)
	}
	params.Meta = sdk.Meta{callIDKey: "once"}
	if a, b := call(t, session, params), call(t, session, params); a.CallID != "once" || a.line != b.line || times != 3 {
		t.Errorf("one call made twice: %s, then %s; done %d times", a.line, b.line, times-2)
	}
}

func TestProgressIsNotified(t *testing.T) {
	_, env := sprite(t)
	k := served(t, echo, func(ctx context.Context, c *skill.Call) (skill.Result, error) {
		for _, p := range []protocol.Info{
			{Message: "one", Kind: "progress"}, {Message: "a note", Kind: "note"},
			{Message: "half", Kind: "progress", Metadata: json.RawMessage(`{"percent":50}`)},
			{Message: "back", Kind: "progress", Metadata: json.RawMessage(`{"percent":20}`)},
		} {
			if err := c.Emit(p); err != nil {
				return skill.Result{}, err
			}
		}
		return says(ctx, c)
	})
	var got []string
	done := make(chan struct{})
	session := connect(t, []Skill{k}, Options{Env: env}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			got = append(got, r.Params.Message)
			if r.Params.Message == "half" && r.Params.Progress == 50 && r.Params.Total == 100 {
				close(done)
			}
		},
	})
	params := &sdk.CallToolParams{Name: "demo_echo", Arguments: map[string]any{"text": "x"}}
	call(t, session, params) // without a token nothing is told
	params.SetProgressToken("p")
	call(t, session, params)
	<-done
	if want := []string{"one", "half"}; !slices.Equal(got, want) {
		t.Errorf("notified %q, want %q", got, want)
	}
}

// meet is a skill that says when it runs and ends when its context does, or when it may.
func meet(running chan<- string, leave <-chan struct{}) skill.Func {
	return func(ctx context.Context, c *skill.Call) (skill.Result, error) {
		running <- c.ID
		select {
		case <-leave:
			return says(ctx, c)
		case <-ctx.Done():
			return skill.Result{}, ctx.Err()
		}
	}
}

func TestCallsRunSideBySideUpToALimit(t *testing.T) {
	_, env := sprite(t)
	running, leave := make(chan string, 3), make(chan struct{})
	session := connect(t, []Skill{served(t, echo, meet(running, leave))}, Options{Env: env, Parallel: 2}, nil)
	ended := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "demo_echo", Arguments: map[string]any{"text": "x"}})
			ended <- err
		}()
	}
	if a, b := <-running, <-running; a == b {
		t.Errorf("two calls have one id, %s", a)
	}
	if len(running) > 0 {
		t.Error("a third call ran beside two, which are the limit")
	}
	close(leave)
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestCancelEndsTheCall(t *testing.T) {
	dir, env := sprite(t)
	running := make(chan string, 1)
	session, end := connectUntil(t, []Skill{served(t, echo, meet(running, nil))}, Options{Env: env}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "demo_echo", Arguments: map[string]any{"text": "x"}})
		ended <- err
	}()
	id := <-running
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled call gave %v", err)
	}
	end()
	if outbox, err := os.ReadFile(filepath.Join(dir, protocol.OutboxFile)); err != nil || !bytes.Contains(outbox, []byte(`"code":"cancelled"`)) || !bytes.Contains(outbox, []byte(id)) {
		t.Errorf("the outbox does not say that %s was cancelled: %v\n%s", id, err, outbox)
	}
}

func TestOnlyWhatIsGrantedAndChosenIsOffered(t *testing.T) {
	_, env := sprite(t)
	list := []Skill{
		served(t, echo, says),
		served(t, `{"name":"demo.write","permissions":["fs:write"]}`, says),
		served(t, `{"name":"other.read","permissions":["fs:read"]}`, says),
		served(t, `{"name":"bad.schema","permissions":[],"input_schema":{"type":"nonsense"}}`, says),
		served(t, `{"name":"bad.root","permissions":[],"input_schema":{"type":"array"}}`, says),
		served(t, `{"name":"ask.first","inputs":[{"name":"mode","type":"string"}],"permissions":["fs:write"],"variants":{"input":"mode","default":"ask",
			"cases":{"ask":{"permissions":["fs:read"]},"do":{"permissions":["fs:write"]}}}}`, says),
	}
	tests := map[string]struct {
		grants string
		tools  []string
		want   []string
	}{
		"everything":       {"*", nil, []string{"ask_first", "demo_echo", "demo_write", "other_read"}},
		"grants":           {"fs:read", nil, []string{"ask_first", "demo_echo", "other_read"}},
		"nothing granted":  {"", nil, nil},
		"a family":         {"*", []string{"demo.*"}, []string{"demo_echo", "demo_write"}},
		"grants and names": {"fs:read", []string{"demo.*", "other.read"}, []string{"demo_echo", "other_read"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			env := env
			env.Grants = skill.ParseGrants(test.grants)
			session := connect(t, list, Options{Env: env, Tools: test.tools}, nil)
			var names []string
			for tool, err := range session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, tool.Name)
				if chosen := tool.Meta[alwaysLoad] == true; chosen != (test.tools != nil) {
					t.Errorf("%s is always loaded: %v", tool.Name, chosen)
				}
			}
			if !slices.Equal(names, test.want) {
				t.Errorf("offered %v, want %v", names, test.want)
			}
		})
	}
	for _, pattern := range []string{"demo.none", "[", ""} {
		if _, err := New(list, Options{Env: env, Tools: []string{"demo.*", pattern}, Stderr: t.Output()}); err == nil {
			t.Errorf("the pattern %q names nothing and is no error", pattern)
		}
	}
}

// A client that calls what is not granted, whatever it was shown, is refused by the runtime.
func TestTheRuntimeRefusesWhatIsNotGranted(t *testing.T) {
	_, env := sprite(t)
	env.Grants = skill.ParseGrants("fs:read")
	session := connect(t, []Skill{served(t, `{"name":"ask.first","inputs":[{"name":"mode","type":"string"}],"permissions":["fs:write"],
		"variants":{"input":"mode","default":"ask","cases":{"ask":{"permissions":["fs:read"]},"do":{"permissions":["fs:write"]}}}}`, says)}, Options{Env: env}, nil)
	r := call(t, session, &sdk.CallToolParams{Name: "ask_first", Arguments: map[string]any{"mode": "do"}})
	if r.Error == nil || r.Error.Code != "permission_denied" {
		t.Errorf("call = %s, want permission_denied", r.line)
	}
}

func TestInputSchemaOfAManifestIsApplied(t *testing.T) {
	_, env := sprite(t)
	const manifest = `{"name":"demo.echo","permissions":[],"inputs":[{"name":"text","type":"string","required":true}],
		"input_schema":{"properties":{"text":{"type":"string","maxLength":3}},"required":["text"]}}`
	session := connect(t, []Skill{served(t, manifest, says)}, Options{Env: env}, nil)
	for text, code := range map[string]string{"abc": "", "abcd": "bad_input"} {
		r := call(t, session, &sdk.CallToolParams{Name: "demo_echo", Arguments: map[string]any{"text": text}})
		if (r.Error != nil) != (code != "") || r.Error != nil && r.Error.Code != code {
			t.Errorf("call with %q = %s, want code %q", text, r.line, code)
		}
	}
}

func TestBuiltInSkillsMakeTools(t *testing.T) {
	size := 0
	for _, m := range manifests.Skills() {
		made, err := newTool(m, false)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		if err := (&sdk.Tool{Name: m.Name}).Name; err == "" || made.tool.Description == "" || made.tool.Annotations.Title == "" {
			t.Errorf("%s lacks a name, description or title", m.Name)
		}
		in := resolve(t, made.tool.InputSchema)
		if strings.Contains(made.tool.Name, ".") {
			t.Errorf("%s: some clients refuse a dot in a name", made.tool.Name)
		}
		raw, err := json.Marshal(made.tool)
		if err != nil {
			t.Fatal(err)
		}
		if !isStep(m.Name) {
			size += len(raw)
		}
		for _, example := range m.Examples {
			var value any
			if err := json.Unmarshal(example, &value); err != nil {
				t.Fatal(err)
			}
			if err := in.Validate(value); err != nil {
				t.Errorf("%s: the example %s breaks the input schema: %v", m.Name, example, err)
			}
		}
	}
	if size > 64<<10 {
		t.Errorf("the list of all tools has %d bytes; a model reads all of it", size)
	}
}

// A client that can ask its user is handed the question of ask.user; its answer is the result.
func TestQuestionsGoToTheUserOfTheClient(t *testing.T) {
	_, env := sprite(t)
	m, _ := manifests.Lookup("ask.user")
	asks := Skill{m, func(context.Context, skill.Env, skill.IO) int { t.Error("the skill itself asks"); return 1 }}
	for action, want := range map[string]string{"accept": `"answer":"red"`, "decline": `"declined"`, "cancel": `"not_answered"`} {
		session := connect(t, []Skill{asks}, Options{Env: env}, &sdk.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				if r.Params.Message != "Which?" {
					t.Errorf("the user is asked %q", r.Params.Message)
				}
				result := &sdk.ElicitResult{Action: action}
				if action == "accept" {
					result.Content = map[string]any{"answer": "red"}
				}
				return result, nil
			},
		})
		r := call(t, session, &sdk.CallToolParams{Name: "ask_user", Arguments: map[string]any{"question": "Which?", "choices": []string{"red", "blue"}}})
		if !strings.Contains(r.line, want) || r.failed != (action != "accept") {
			t.Errorf("%s: %s", action, r.line)
		}
	}
}

// What cannot be put to a user as a form is asked by the skill, as is everything where the client offers no forms.
func TestQuestionsThatTheSkillAsks(t *testing.T) {
	_, env := sprite(t)
	m, _ := manifests.Lookup("ask.user")
	asked := 0
	asks := Skill{m, func(_ context.Context, _ skill.Env, streams skill.IO) int {
		asked++
		io.WriteString(streams.Stdout, `{"ok":true,"skill":"ask.user","data":{"answers":{}},"events":0}`+"\n")
		return 0
	}}
	forms := &sdk.ClientOptions{ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		t.Error("the client asks")
		return nil, errors.New("no")
	}}
	plain := map[string]any{"question": "Which?"}
	call(t, connect(t, []Skill{asks}, Options{Env: env}, nil), &sdk.CallToolParams{Name: "ask_user", Arguments: plain})
	call(t, connect(t, []Skill{asks}, Options{Env: env}, forms), &sdk.CallToolParams{Name: "ask_user", Arguments: map[string]any{"question": "Which?", "expected_inputs": map[string]any{"all": "array<string>"}}})
	env.AgentCallID = "call-1"
	call(t, connect(t, []Skill{asks}, Options{Env: env}, forms), &sdk.CallToolParams{Name: "ask_user", Arguments: plain})
	if asked != 3 {
		t.Errorf("the skill asked %d times, want 3", asked)
	}
}

func resolve(t *testing.T, schema any) *jsonschema.Resolved {
	t.Helper()
	raw, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return resolved
}

func TestToolOfAManifest(t *testing.T) {
	m, err := manifests.ParseSkill([]byte(`{"name":"demo.push","description":"Push it.","inputs":[
		{"name":"repo","type":"string","description":"Where.","default":"repo"},{"name":"mode","type":"string","default":"ask"},
		{"name":"files","type":"array<array<string>>","required":true},{"name":"any","type":"any","required":false},{"name":"env","type":"map","required":false}],
		"outputs":["head",{"name":"url","type":"string"}],"permissions":["git:read"],"optional_permissions":["net"],"side_effect":"sprite","destructive":false,
		"variants":{"input":"mode","default":"ask","cases":{"ask":{"permissions":["git:read"]},"do":{"permissions":["git:push"]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	made, err := newTool(m, true)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(made.tool, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "tool.json")
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(golden, append(got, '\n'), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("the tool of a manifest: (-want +got)\n%s", diff)
	}
}

func TestHintsFollowPermissionsAndClass(t *testing.T) {
	tests := map[string]string{ // manifest members → reads, destroys, idempotent, open
		`"permissions":["fs:read"],"side_effect":"read"`:                         "reads idempotent",
		`"permissions":["test:run"],"side_effect":"read"`:                        "idempotent",
		`"permissions":["fs:read","net"],"side_effect":"read"`:                   "idempotent open",
		`"permissions":["fs:write"],"side_effect":"sprite"`:                      "destroys",
		`"permissions":["git:write"],"side_effect":"sprite","destructive":false`: "",
		`"permissions":["fs:write"],"side_effect":"idempotent"`:                  "idempotent",
		`"permissions":["git:push"],"side_effect":"world"`:                       "destroys open",
		`"permissions":[]`:                                          "destroys",
		`"permissions":["of:strangers"]`:                            "destroys open",
		`"permissions":["fs:write"],"optional_permissions":["net"]`: "destroys open",
	}
	for members, want := range tests {
		m, err := manifests.ParseSkill([]byte(`{"name":"demo.x",` + members + `}`))
		if err != nil {
			t.Fatal(err)
		}
		a := newAnnotations(m)
		var got []string
		for word, is := range map[string]bool{"reads": a.ReadOnlyHint, "destroys": *a.DestructiveHint, "idempotent": a.IdempotentHint, "open": *a.OpenWorldHint} {
			if is {
				got = append(got, word)
			}
		}
		wanted := strings.Fields(want)
		slices.Sort(got)
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("hints of %s = %v, want %v", members, got, wanted)
		}
	}
}
