package spritestest

import (
	"encoding/json"
	"strings"
	"time"
)

// insideTests hold what a sprite finds in /.sprite, and what its own socket does for it.
var insideTests = map[string]func(env){
	"inside: a sprite keeps tasks": func(e env) {
		for _, step := range []struct{ method, path, body, status, holds string }{
			{"GET", "/v1/tasks", "", "200", "[]"},
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
			{"GET", "/v1/tasks", "", "200", `"name":"other"`},
		} {
			if status, body := e.inside(step.method, step.path, step.body); status != step.status || !strings.Contains(body, step.holds) {
				e.Errorf("%s %s %s = %s, %s, want %s with %s", step.method, step.path, step.body, status, body, step.status, step.holds)
			}
		}
	},
	"inside: a sprite reads its checkpoints": func(e env) {
		p, err := e.client.Checkpoint(e.ctx, e.name, "from outside")
		if err != nil {
			e.Fatal(err)
		}
		if status, body := e.inside("GET", "/v1/checkpoints", ""); status != "200" || !strings.HasPrefix(body, `[{"id":"Current"`) || !strings.Contains(body, `"id":"`+p.ID+`"`) {
			e.Errorf("list = %s, %s", status, body)
		}
		if status, body := e.inside("GET", "/v1/checkpoints/"+p.ID, ""); status != "200" || !strings.Contains(body, `"comment":"from outside"`) {
			e.Errorf("%s = %s, %s", p.ID, status, body)
		}
		if status, body := e.inside("GET", "/v1/checkpoints/v99", ""); status != "404" {
			e.Errorf("v99 = %s, %s", status, body)
		}
		for _, path := range []string{"/v1/checkpoints/" + p.ID, "/v1/sprites", "/v1/policy/network", "/v1/services/x"} {
			for _, method := range []string{"DELETE", "PUT"} {
				if status, body := e.inside(method, path, "{}"); status != "404" && status != "405" {
					e.Errorf("%s %s = %s, %s: more than a sprite may do to itself", method, path, status, body)
				}
			}
		}
	},
	"inside: a checkpoint is told line by line": func(e env) {
		status, body := e.inside("POST", "/v1/checkpoint", `{"comment":"mine"}`)
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
		e.can("inside")
		e.must("mkdir -p /workspace; echo first >/workspace/f")
		p, err := e.client.Checkpoint(e.ctx, e.name, "")
		if err != nil {
			e.Fatal(err)
		}
		dir := "/.sprite/checkpoints/" + p.ID
		if got := e.must("echo second >/workspace/f; cat " + dir + "/workspace/f"); got != "first\n" {
			e.Errorf("%s has %q", dir, got)
		}
		if code, _, _ := e.sh("echo x >"+dir+"/workspace/f || touch "+dir+"/x", nil); code == 0 {
			e.Errorf("%s was changed", dir)
		}
	},
	"inside: the version is told": func(e env) {
		e.can("inside")
		if got := e.must(`cat "$(dirname "${LATTICE_SOCKET:-/.sprite/api.sock}")/version.txt"`); strings.TrimSpace(got) == "" {
			e.Error("version.txt is empty")
		}
	},
}

// inside has curl make a request of the sprite's own socket, from inside.
func (e env) inside(method, path, body string) (status, answer string) {
	e.Helper()
	e.can("inside")
	if code, _, _ := e.sh("command -v curl", nil); code != 0 {
		e.Skip("there is no curl inside")
	}
	data := ""
	if body != "" {
		data = " -d '" + body + "'"
	}
	said := e.must("curl -sS --unix-socket ${LATTICE_SOCKET:-/.sprite/api.sock} http://sprite" + path + " -X " + method + data + ` -w '%{http_code}'`)
	return said[len(said)-3:], said[:len(said)-3]
}
