package spritestest

import (
	"encoding/json"
	"strings"
	"time"
)

// insideTests check the contents of /.sprite in a sprite, and the calls of its own socket.
var insideTests = map[string]func(env){
	"inside: a sprite keeps tasks": func(e env) {
		for _, step := range []struct{ method, path, body, status, holds string }{
			{"GET", "/v1/tasks", "", "200", `{"tasks":[]}`},
			{"POST", "/v1/tasks", `{"name":"build","expire":"10m"}`, "201", `"name":"build"`},
			{"POST", "/v1/tasks", `{"name":"build","expire":60}`, "409", "error"},
			{"PUT", "/v1/tasks/build", `{"expire":1800}`, "200", `"name":"build"`},
			{"PUT", "/v1/tasks/other", `{"expire":"1h"}`, "200", `"name":"other"`},
			{"GET", "/v1/tasks/build", "", "200", `"name":"build"`},
			{"POST", "/v1/tasks", `{"name":"long","expire":"2h"}`, "400", "error"},
			{"POST", "/v1/tasks", `{"expire":"1m"}`, "400", "error"},
			{"POST", "/v1/tasks", `{"name":"x","expire":"soon"}`, "400", "error"},
			{"DELETE", "/v1/tasks/build", "", "204", ""},
			{"DELETE", "/v1/tasks/build", "", "404", "error"},
			{"GET", "/v1/tasks/build", "", "404", "error"},
			{"GET", "/v1/tasks", "", "200", `{"tasks":[{"name":"other","expire":"`},
		} {
			if status, body := e.requestInside(step.method, step.path, step.body); status != step.status || !strings.Contains(body, step.holds) {
				e.Errorf("%s %s %s = %s, %s, want %s with %s", step.method, step.path, step.body, status, body, step.status, step.holds)
			}
		}
	},
	"inside: a sprite reads its checkpoints": func(e env) {
		p, err := e.client.Checkpoint(e.ctx, e.name, "from outside")
		if err != nil {
			e.Fatal(err)
		}
		if status, body := e.requestInside("GET", "/v1/checkpoints", ""); status != "200" || !strings.HasPrefix(body, `[{"id":"Current"`) || !strings.Contains(body, `"id":"`+p.ID+`"`) {
			e.Errorf("list = %s, %s", status, body)
		}
		if status, body := e.requestInside("GET", "/v1/checkpoints/"+p.ID, ""); status != "200" || !strings.Contains(body, `"comment":"from outside"`) {
			e.Errorf("%s = %s, %s", p.ID, status, body)
		}
		if status, body := e.requestInside("GET", "/v1/checkpoints/v99", ""); status != "404" {
			e.Errorf("v99 = %s, %s", status, body)
		}
		for _, path := range []string{"/v1/checkpoints/" + p.ID, "/v1/sprites", "/v1/policy/network"} {
			for _, method := range []string{"DELETE", "PUT"} {
				if status, body := e.requestInside(method, path, "{}"); status != "404" && status != "405" {
					e.Errorf("%s %s = %s, %s: more than a sprite may do to itself", method, path, status, body)
				}
			}
		}
	},
	"inside: a sprite knows who it is and what it may reach": func(e env) {
		for _, path := range []string{"/info", "/v1/info"} {
			status, body := e.requestInside("GET", path, "")
			var info struct {
				Name    string
				URL     *string `json:"sprite_url"`
				Version string
			}
			if err := json.Unmarshal([]byte(body), &info); status != "200" || err != nil || info.Name != e.name || info.URL == nil || info.Version == "" {
				e.Errorf("%s = %s, %s", path, status, body)
			}
		}
		_, outside := e.requestText("GET", "/policy/network", nil)
		for _, path := range []string{"/policy/network", "/v1/policy/network"} {
			if status, body := e.requestInside("GET", path, ""); status != "200" || strings.TrimSpace(body) != strings.TrimSpace(outside) {
				e.Errorf("%s = %s, %s, want %s", path, status, body, outside)
			}
			if status, body := e.requestInside("POST", path, `{"rules":[]}`); status != "404" && status != "405" {
				e.Errorf("POST %s = %s, %s: a sprite must not choose what it may reach", path, status, body)
			}
		}
	},
	"inside: a sprite keeps services": func(e env) {
		for _, step := range []struct{ method, path, body, status, holds string }{
			{"GET", "/v1/services", "", "200", "[]"},
			{"PUT", "/v1/services/web?duration=0s", `{"cmd":"sleep","args":["600"]}`, "200", `"type":"complete"`},
			{"GET", "/v1/services/web", "", "200", `"cmd":"sleep"`},
			{"POST", "/v1/services/signal", `{"name":"web","signal":"CONT"}`, "204", ""},
			{"POST", "/v1/services/web/stop?timeout=2s", "", "200", `"type":"stopped"`},
			{"POST", "/v1/services/web/start?duration=0s", "", "200", `"type":"started"`},
			{"GET", "/v1/services/web/logs", "", "200", ""},
			{"GET", "/v1/services/none", "", "404", "error"},
			{"PUT", "/v1/services/bad", `{}`, "400", "cmd"},
			{"DELETE", "/v1/services/web", "", "204", ""},
			{"GET", "/v1/services", "", "200", "[]"},
		} {
			if status, body := e.requestInside(step.method, step.path, step.body); status != step.status || !strings.Contains(body, step.holds) {
				e.Errorf("%s %s %s = %s, %s, want %s with %s", step.method, step.path, step.body, status, body, step.status, step.holds)
			}
		}
	},
	"inside: sprite-env does it from the command line": func(e env) {
		e.requireCapability("inside")
		if code, _, _ := e.runScript("command -v curl", nil); code != 0 {
			e.Skip("there is no curl inside")
		}
		for _, step := range []struct {
			command string
			code    int
			holds   string
		}{
			{"sprite-env info", 0, `"name":"` + e.name + `"`},
			{"sprite-env services list", 0, "[]"},
			{`sprite-env services create web --cmd sh --args '-c,echo "say \ it"; exec sleep 600' --env 'A=b c,D=e=f' --dir /tmp --no-stream`, 0, ""},
			{"sprite-env services get web", 0, `"args":["-c","echo \"say \\ it\"; exec sleep 600"],"env":{"A":"b c","D":"e=f"},"dir":"/tmp"`},
			{"sprite-env services restart web --duration 300ms", 0, `"type":"started"`},
			{"sprite-env services logs web", 0, `say`},
			{"sprite-env services stop web --timeout=2s", 0, `"type":"stopped"`},
			{"sprite-env services create other --cmd sleep --needs missing --duration 0s", 1, "missing"},
			{"sprite-env services delete web", 0, ""},
			{"sprite-env services get web", 1, "not found"},
			{`sprite-env curl -X PUT "/v1/services/two?duration=0s" -d '{"cmd":"true"}'`, 0, "complete"},
			{"sprite-env checkpoints create --comment 'two words'", 0, `"type":"complete"`},
			{"sprite-env checkpoints list", 0, `"comment":"two words"`},
			{"sprite-env checkpoints restore v1", 2, ""},
			{"sprite-env tasks put build --expire 5m", 0, `"name":"build"`},
			{"sprite-env tasks list", 0, `{"tasks":[{"name":"build"`},
			{"sprite-env services wat x", 2, ""},
			{"sprite-env services create x", 2, ""},
			{"sprite-env services get x --cmd y", 2, ""},
			{"sprite-env", 2, ""},
			{"sprite-console echo here", 0, "here"},
			{"echo 'exit 7' | sprite-console", 7, ""},
		} {
			code, out, errOut := e.runScript(step.command, nil)
			if code != step.code || !strings.Contains(out, step.holds) {
				e.Errorf("%s = %d, %s%s, want %d with %s", step.command, code, out, errOut, step.code, step.holds)
			}
		}
	},
	"inside: a checkpoint is told line by line": func(e env) {
		status, body := e.requestInside("POST", "/v1/checkpoint", `{"comment":"mine"}`)
		lines := strings.Split(strings.TrimSpace(body), "\n")
		var last struct {
			Type, Data, Time string
			ID               string `json:"checkpoint_id"`
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || status != "200" {
			e.Fatalf("= %s, %s, %v", status, body, err)
		}
		if _, err := time.Parse(time.RFC3339, last.Time); err != nil || last.Type != "complete" || last.Data != "Checkpoint "+last.ID+" created successfully" {
			e.Errorf("last line %+v, %v", last, err)
		}
		for _, want := range []string{`"data":"Creating checkpoint..."`, `"data":"Checkpoint created successfully"`, `"data":"  ID: ` + last.ID + `"`, `"data":"  Path: checkpoints/` + last.ID + `"`} {
			if !strings.Contains(body, want) {
				e.Errorf("no line with %s in %s", want, body)
			}
		}
	},
	"inside: the last checkpoints are shown, and cannot be changed": func(e env) {
		e.requireCapability("inside")
		e.mustRun("mkdir -p /workspace; echo first >/workspace/f")
		p, err := e.client.Checkpoint(e.ctx, e.name, "")
		if err != nil {
			e.Fatal(err)
		}
		dir := "/.sprite/checkpoints/" + p.ID
		if got := e.mustRun("echo second >/workspace/f; cat " + dir + "/workspace/f"); got != "first\n" {
			e.Errorf("%s has %q", dir, got)
		}
		if code, _, _ := e.runScript("echo x >"+dir+"/workspace/f || touch "+dir+"/x", nil); code == 0 {
			e.Errorf("%s was changed", dir)
		}
	},
	"inside: the version is told": func(e env) {
		e.requireCapability("inside")
		if got := e.mustRun(`cat "$(dirname "${LATTICE_SOCKET:-/.sprite/api.sock}")/version.txt"`); strings.TrimSpace(got) == "" {
			e.Error("version.txt is empty")
		}
	},
}

// requestInside has curl make a request of the sprite's own socket, from inside.
func (e env) requestInside(method, path, body string) (status, answer string) {
	e.Helper()
	e.requireCapability("inside")
	if code, _, _ := e.runScript("command -v curl", nil); code != 0 {
		e.Skip("there is no curl inside")
	}
	data := ""
	if body != "" {
		data = " -d '" + body + "'"
	}
	said := e.mustRun("curl -sS --unix-socket ${LATTICE_SOCKET:-/.sprite/api.sock} http://sprite" + path + " -X " + method + data + ` -w '%{http_code}'`)
	return said[len(said)-3:], said[:len(said)-3]
}
