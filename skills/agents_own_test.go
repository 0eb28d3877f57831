package skills

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const parrotAdapter = `{
  "name": "parrot", "description": "It repeats what it is told.", "programs": ["parrot"],
  "argv": ["talk", {"if": "session_mode=resume", "args": ["--again", "{session}"]}, {"if": "model", "args": ["-m", "{model}"]}, {"list": "extra_args"}],
  "env": {"PARROT_HOME": "{home}/nest"}, "env_allow": ["PARROT_SIZE"], "secrets": ["PARROT_KEY"],
  "files": [{"path": "{home}/nest/config.toml", "format": "toml", "main": true, "content": {"volume": 3, "servers": "{mcp_servers}"}}],
  "mcp": {"command": "{command}", "args": "{args}", "env": "{env}"},
  "instructions": ["{cwd}/AGENTS.md", "{cwd}/CLAUDE.md"], "skills": ["{home}/skills"],
  "packs": {"songs": {"package": "parrot-songs", "argv": ["sh", "{pack}/install.sh", "{home}/songs"]}},
  "events": [
    {"when": {"is": "hello"}, "is": "start", "take": {"session": "id", "mcp": "servers"}},
    {"when": {"is": "word"}, "is": "turn"},
    {"when": {"is": "word"}, "is": "text", "take": {"text": "word"}},
    {"when": {"is": "word"}, "is": "usage", "take": {"input": "n", "output": "n"}},
    {"when": {"is": "bye"}, "is": "end", "take": {"failed": "sad", "message": "why"}}
  ],
  "causes": [{"contains": ["no seeds"], "is": "rate_limit"}],
  "resumes": true, "locks": ["{home}/locks/*"], "linger_s": 0.3
}`

// parrot makes a sprite with an agent of its own, which runs a shell script, and a folder in the place of /skills.
func parrot(t *testing.T, script string) *sprite {
	s := newSprite(t)
	s.write("opt/spritekit", "#!/bin/sh\nexit 1\n")
	s.write("opt/agents/parrot.json", parrotAdapter)
	s.write("opt/parrot", "#!/bin/sh\n"+script)
	s.env.Child = append(s.env.Child, "PATH="+filepath.Join(s.dir, "opt")+string(filepath.ListSeparator)+os.Getenv("PATH"), "PARROT_KEY=polly-wants-a-cracker", "PARROT_SIZE=big")
	return s
}

const hello = `echo '{"is":"hello","id":"p-1"}'
`

func TestAnAgentOfTheUsersOwn(t *testing.T) {
	s := parrot(t, hello+`cat > prompt; echo "$@" > args; cp "$PARROT_HOME/config.toml" config; ls "$HOME" > home; cat AGENTS.md CLAUDE.md > seen; git status --porcelain > status
echo "size $PARROT_SIZE" >&2; echo "{\"is\":\"word\",\"word\":\"my key is $PARROT_KEY\",\"n\":10}"; printf '%s' "$PARROT_KEY" | base64 >&2
echo '{"is":"word","word":"hello\u0021","n":5}'
echo '{"is":"bye"}'
`)
	s.origin()
	s.must("git.clone", `{"url":"origin"}`)
	s.write("repo/CLAUDE.md", "the user's own\n")
	s.git("repo", "add", "-A")
	s.git("repo", "commit", "-q", "-m", "second")
	s.write("lib/sing/SKILL.md", "---\nname: sing\n---\n")
	data := s.must("agent.run", `{"agent":"parrot","prompt":"say hello","cwd":"repo","model":"grey","extra_args":["--loud"],"config":{"volume":11},
	  "instructions":"Be brief.","skills":["lib/sing"],"prices":{"input":1,"output":2}}`)
	got := map[string]string{}
	for _, name := range []string{"prompt", "args", "config", "home", "seen", "status"} {
		got[name] = s.read("repo/" + name)
	}
	if !strings.Contains(got["config"], "volume = 11\n") || !strings.Contains(got["config"], "[servers.spritekit]\nargs = [\"mcp\", \"--tools\", \"ask.user,notify.user,test.run\"]\n") {
		t.Errorf("its configuration is %s", got["config"])
	}
	delete(got, "config")
	want := map[string]string{
		"prompt": "say hello", "args": "talk -m grey --loud\n", "home": "nest\nskills\n", "seen": "Be brief.\nthe user's own\n",
		"status": "?? args\n?? config\n?? home\n?? prompt\n?? seen\n?? status\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what it saw (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "repo/AGENTS.md")); err == nil || s.read("repo/CLAUDE.md") != "the user's own\n" {
		t.Error("the instructions stay in the repository, or took the place of the user's")
	}
	if exclude, err := os.ReadFile(filepath.Join(s.dir, "repo/.git/info/exclude")); err == nil && strings.Contains(string(exclude), "AGENTS") {
		t.Errorf("info/exclude still has %s", exclude)
	}
	if diff := cmp.Diff(map[string]any{"usd": 0.000045, "source": "derived"}, data["cost"]); diff != "" {
		t.Errorf("cost (-want +got):\n%s", diff)
	}
	if data["final_text"] != "hello!" || data["turns"] != 2.0 || data["session_id"] != "p-1" {
		t.Errorf("agent.run = %v", data)
	}
	transcript := s.read(data["transcript_path"].(string))
	if !strings.Contains(transcript, "my key is [redacted]") || !strings.Contains(transcript, "size big") || strings.Contains(transcript, "cG9sbHktd2Fud") {
		t.Errorf("the transcript is %s", transcript)
	}
	s.must("agent.run", `{"agent":"parrot","session":{"mode":"resume","id":"p-1"}}`)
	if got := s.read("repo/args"); got != "talk --again p-1\n" {
		t.Errorf("resumed with %q", got)
	}
	// The same adapter, handed over.
	s.must("agent.run", `{"adapter":`+parrotAdapter+`,"prompt":"x"}`)
	s.write("opt/agents/parrot.json", `{"name":"parrot","argv":["{prompt}"]}`)
	s.fails("agent.run", `{"agent":"parrot"}`, 2, "bad_adapter")
	wrong := s.call("agent.run", `{"adapter":{"name":"Parrot"}}`)
	if wrong.exit != 2 || !strings.Contains(wrong.result.Error.Message, "wrong: /adapter is wrong: /name") {
		t.Errorf("an adapter without sense = %s", wrong.stdout)
	}
	s.fails("agent.run", `{"agent":"../parrot"}`, 2, "bad_input")
	os.Remove(filepath.Join(s.dir, "opt/parrot"))
	s.fails("agent.run", `{"adapter":`+parrotAdapter+`}`, 8, "agent_missing")
}

func TestVerdicts(t *testing.T) {
	tests := map[string]struct {
		script, input string
		exit          int
		code          string
	}{
		"says nothing of its end":      {hello, `{}`, 1, "agent_failed"},
		"fails by its own word":        {hello + `echo '{"is":"bye","sad":true,"why":"tired"}'`, `{}`, 1, "agent_failed"},
		"a reason that is known":       {hello + `echo '{"is":"bye","sad":true,"why":"no seeds"}'`, `{"usage_limit":"fail"}`, 1, "agent_rate_limited"},
		"well, then an exit code":      {hello + `echo '{"is":"bye"}'; exit 3`, `{}`, 1, "agent_failed"},
		"well, and stays":              {hello + `echo '{"is":"bye"}'; exec sleep 600`, `{"timeout_s":60}`, 0, ""},
		"too many turns":               {hello + `while :; do echo '{"is":"word","word":"w","n":1}'; sleep 0.02; done`, `{"limits":{"max_turns":3}}`, 9, "agent_limit"},
		"too many tokens":              {hello + `while :; do echo '{"is":"word","word":"w","n":100}'; sleep 0.02; done`, `{"limits":{"max_tokens":500}}`, 9, "agent_limit"},
		"too much money":               {hello + `while :; do echo '{"is":"word","word":"w","n":100}'; sleep 0.02; done`, `{"limits":{"max_cost_usd":0.01},"prices":{"input":10,"output":10}}`, 9, "agent_limit"},
		"no answer by the schema":      {hello + `echo '{"is":"word","word":"{}"}'; echo '{"is":"bye"}'`, `{"output_schema":{"type":"object","required":["a"]}}`, 1, "structured_output_invalid"},
		"a schema that is none":        {hello, `{"output_schema":{"type":7}}`, 2, "bad_input"},
		"a pack that nobody knows":     {hello, `{"packs":["poems"]}`, 8, "unsupported"},
		"a pack that is not there":     {hello, `{"packs":["songs"]}`, 8, "pack_missing"},
		"a mode that it does not know": {hello, `{"permissions":{"mode":"plan"}}`, 8, "unsupported"},
		"a session that is not there":  {hello, `{"session":{"mode":"fork","id":"x"}}`, 3, "not_found"},
		"skills that are none":         {hello, `{"skills":["opt"]}`, 2, "bad_input"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := parrot(t, test.script)
			o := s.call("agent.run", strings.Replace(strings.Replace(test.input, "{", `{"agent":"parrot","mcp":{"spritekit":false},`, 1), ",}", "}", 1))
			if o.exit != test.exit || test.code != "" && o.result.Error.Code != test.code {
				t.Errorf("exit %d, %s, want %d %s", o.exit, o.stdout, test.exit, test.code)
			}
		})
	}
}

func TestAPackIsInstalled(t *testing.T) {
	s := parrot(t, hello+`cat "$HOME/songs/one" > sung; echo '{"is":"bye"}'`)
	s.write("opt/packs/parrot-songs/package.json", "{}")
	s.write("opt/packs/parrot-songs/install.sh", `mkdir -p "$1" && echo "la la" > "$1/one"`)
	s.must("agent.run", `{"agent":"parrot","packs":["songs"]}`)
	if got := s.read("sung"); got != "la la\n" {
		t.Errorf("it sang %q", got)
	}
	s.write("opt/packs/parrot-songs/install.sh", "echo hoarse >&2; exit 1\n")
	if fault := s.fails("agent.run", `{"agent":"parrot","packs":["songs"]}`, 1, "install_failed"); !strings.Contains(fault.Message, "hoarse") {
		t.Errorf("the failure says %q", fault.Message)
	}
}

func TestAnAgentWithoutOurTools(t *testing.T) {
	s := parrot(t, `echo '{"is":"hello","id":"p-1","servers":[{"name":"spritekit","status":"failed"}]}'; sleep 1; echo '{"is":"bye"}'`)
	o := s.call("agent.run", `{"agent":"parrot"}`)
	if o.exit != 0 || len(o.result.Warnings) != 1 || o.result.Warnings[0].Code != "mcp_not_connected" {
		t.Errorf("exit %d, warnings %v, want that it is told", o.exit, o.result.Warnings)
	}
	s.fails("agent.run", `{"agent":"parrot","mcp":{"spritekit":true}}`, 1, "mcp_not_connected")
	s.fails("agent.run", `{"agent":"command","command":"true","mcp":{"spritekit":true}}`, 8, "unsupported")
}
