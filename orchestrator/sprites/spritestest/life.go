package spritestest

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// lifeTests check a server's answers about a sprite's settings and life.
var lifeTests = map[string]func(env){
	"life: what was asked for is told": func(e env) {
		name := e.name + "-made"
		status, out := e.sendTo(http.MethodPost, "/v1/sprites", `{"name":"`+name+`","config":{"ram_mb":512,"cpus":2,"region":"ord","storage_gb":5},
			"environment":{"GREETING":"hi"},"labels":["b","a"],"url_settings":{"auth":"public","private_access":"admins"},"wait_for_capacity":true,
			"runtime":"default","unknown":{"member":1}}`)
		if status != http.StatusCreated {
			e.Fatalf("create = %d, %v", status, out)
		}
		defer e.client.Delete(e.ctx, name)
		for _, member := range []string{"id", "name", "status", "organization", "created_at", "updated_at", "url_settings"} {
			if out[member] == nil {
				e.Errorf("the sprite object lacks %s: %v", member, out)
			}
		}
		if labels, _ := out["labels"].([]any); !slices.Equal(labels, []any{"b", "a"}) {
			e.Errorf("labels = %v", out["labels"])
		}
		if config, ok := out["config"].(map[string]any); ok && (config["ram_mb"] != 512.0 || config["storage_gb"] != 5.0) {
			e.Errorf("config = %v", config)
		}
		code, err := e.client.Exec(e.ctx, name, sprites.Exec{Cmd: []string{"sh", "-c", `test "$GREETING" = hi`}})
		if code != 0 || err != nil {
			e.Errorf("the environment does not reach commands: %d, %v", code, err)
		}
	},
	"life: settings that make no sense are refused": func(e env) {
		for _, body := range []string{`{"url_settings":{"auth":"nobody"}}`, `[]`, `{"labels":"a"}`} {
			if status, out := e.sendJSON(http.MethodPut, "", body); status != http.StatusBadRequest {
				e.Errorf("PUT %s = %d, %v, want 400", body, status, out)
			}
		}
		if status, out := e.sendTo(http.MethodPut, "/v1/sprites/no-such-sprite", `{"labels":[]}`); status != http.StatusNotFound || out["error"] == nil {
			e.Errorf("PUT of a missing sprite = %d, %v", status, out)
		}
	},
	"life: counts stand beside the list and in org": func(e env) {
		status, out := e.sendTo(http.MethodGet, "/v1/sprites?max_results=1&bulk_load=true", "")
		org, _ := out["org"].(map[string]any)
		if status != http.StatusOK {
			e.Fatalf("list = %d, %v", status, out)
		}
		for _, member := range []string{"name", "running", "warm", "cold", "running_limit", "warm_limit"} {
			if out[member] == nil || org[member] != out[member] {
				e.Errorf("%s = %v beside the list and %v in org", member, out[member], org[member])
			}
		}
	},
	"life: a restart ends sessions and keeps files": func(e env) {
		_, result := e.beginExec(e.ctx, sprites.Exec{Cmd: []string{"sh", "-c", "echo kept >/tmp/f; echo ready; sleep 600"}, MaxRunAfterDisconnect: -1})
		status, out := e.sendJSON(http.MethodPost, "/restart", "")
		if status != http.StatusOK || out["sprite_name"] != e.name || out["machine_id"] == nil || out["message"] == nil {
			e.Errorf("restart = %d, %v", status, out)
		}
		_, _ = result()
		if list, err := e.client.Sessions(e.ctx, e.name); err != nil || len(list) != 0 {
			e.Errorf("Sessions = %+v, %v", list, err)
		}
		if got := e.mustRun("cat /tmp/f"); got != "kept\n" {
			e.Errorf("f = %q", got)
		}
		if status, out := e.sendJSON(http.MethodGet, "/check", ""); status != http.StatusOK || out["sprite_id"] == nil || out["checked_at"] == nil || out["status"] == nil {
			e.Errorf("check = %d, %v", status, out)
		}
		if status, out := e.sendJSON(http.MethodPost, "/upgrade", ""); status != http.StatusOK && status != http.StatusNoContent {
			e.Errorf("upgrade = %d, %v", status, out)
		}
	},
	"life: every answer tells the version": func(e env) {
		for _, try := range []struct{ method, path string }{
			{http.MethodGet, "/v1/sprites"}, {http.MethodHead, "/v1/sprites/" + e.name + "/exec"}, {http.MethodHead, "/v1/sprites/no-such-sprite/exec"},
			{http.MethodGet, "/v1/sprites/no-such-sprite"},
		} {
			var version string
			e.requestTo(try.method, try.path, func(res *http.Response) { version = res.Header.Get("Sprite-Version") })
			if version == "" {
				e.Errorf("%s %s: no Sprite-Version", try.method, try.path)
			}
		}
	},
	"life: the list is watched": func(e env) {
		req, err := http.NewRequestWithContext(e.ctx, http.MethodGet, e.target.BaseURL+"/v1/sprites?prefix="+e.name, nil)
		if err != nil {
			e.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+e.target.Token)
		req.Header.Set("Accept", "application/x-ndjson")
		res := e.doRequest(req)
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		type state struct {
			Type, Name, Status, Timestamp string
			Org                           map[string]any
		}
		next := func() state {
			for lines.Scan() {
				var line state
				if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Timestamp == "" || line.Org["cold"] == nil {
					e.Fatalf("line %q: %v", lines.Bytes(), err)
				}
				if line.Type != "heartbeat" {
					return line
				}
			}
			e.Fatalf("the stream ended: %v", lines.Err())
			return state{}
		}
		if first := next(); first.Name != e.name {
			e.Errorf("first line is about %q, want %q", first.Name, e.name)
		}
		e.mustRun("true")
		for next().Status != "running" {
		}
	},
}
