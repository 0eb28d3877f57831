package spritestest

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

var checkpointTests = map[string]func(env){
	"checkpoint and restore keep bytes, modes, links and deletions": func(e env) {
		const describe = `cd /workspace && find . | sort | while read -r f; do echo "$f $(stat -c '%a %F' "$f") $(readlink "$f")"; test -f "$f" && cat "$f"; done; cat /home/sprite/h`
		e.mustRun(`mkdir -p /workspace/d; cd /workspace; echo one > d/a; chmod 600 d/a; printf '#!/bin/sh\n' > run; chmod 755 run; ln -s d/a link; ln -s missing broken; echo gone > doomed; echo home > /home/sprite/h`)
		want := e.mustRun(describe)
		point, err := e.client.Checkpoint(e.ctx, e.name, "a comment")
		if err != nil || point.ID == "" || point.Comment != "a comment" {
			e.Fatalf("Checkpoint = %+v, %v", point, err)
		}
		e.mustRun(`cd /workspace; echo two > d/a; chmod 644 d/a; rm doomed link; ln -s run link; echo new > new; mkdir other; rm run; echo x > /home/sprite/h`)
		if err := e.client.Restore(e.ctx, e.name, point.ID); err != nil {
			e.Fatal(err)
		}
		if got := e.mustRun(describe); got != want {
			e.Errorf("after restore:\n%s\nwant:\n%s", got, want)
		}
		// Once more: a restore does not use up a checkpoint, and later writes do not change it.
		e.mustRun(`rm -rf /workspace/d`)
		if err := e.client.Restore(e.ctx, e.name, point.ID); err != nil {
			e.Fatal(err)
		}
		if got := e.mustRun(describe); got != want {
			e.Errorf("after the second restore:\n%s\nwant:\n%s", got, want)
		}
	},
	"checkpoints are listed newest first": func(e env) {
		var want []string
		for range 3 {
			p, err := e.client.Checkpoint(e.ctx, e.name, "")
			if err != nil {
				e.Fatal(err)
			}
			want = append([]string{p.ID}, want...)
		}
		list, err := e.client.Checkpoints(e.ctx, e.name)
		var got []string
		for _, p := range list {
			got = append(got, p.ID)
		}
		if err != nil || !slices.Equal(got, want) {
			e.Errorf("Checkpoints = %q, %v, want %q", got, err, want)
		}
		if err := e.client.DeleteCheckpoint(e.ctx, e.name, want[1]); err != nil {
			e.Error(err)
		}
		if err := e.client.Restore(e.ctx, e.name, want[1]); err == nil {
			e.Error("restored a deleted checkpoint")
		}
	},
	"restore brings back every kind of file": func(e env) {
		e.mustRun(`mkdir -p /workspace/t/e1/e2; cd /workspace/t; for i in $(seq 300); do echo $i > f$i; done
			ln f1 hard; ln -s f2 soft; ln -s /nowhere/at/all dangling; mkfifo pipe; touch -d 2001-02-03 f5
			chmod 000 f3; chmod 4755 f4; chmod 2711 e1/e2; touch "$(printf 'new\nline')" "$(printf 'by\377te')"`)
		const look = `cd /workspace/t; find . -printf '%p %y %m %l %T@ %n %s\n' | LC_ALL=C sort; cat f1 hard f300`
		want := e.mustRun(look)
		p, err := e.client.Checkpoint(e.ctx, e.name, "héllo ✓\n")
		if err != nil || p.Comment != "héllo ✓\n" {
			e.Fatalf("Checkpoint = %+v, %v", p, err)
		}
		e.mustRun(`cd /workspace/t; rm -rf e1 f?? pipe; echo other > f1; ln -sf x soft; echo more > added; chmod 777 f3`)
		if err := e.client.Restore(e.ctx, e.name, p.ID); err != nil {
			e.Fatal(err)
		}
		if got := e.mustRun(look); got != want {
			e.Errorf("after restore:\n%s\nwant:\n%s", got, want)
		}
	},
	"checkpoint while a command runs": func(e env) {
		id, result := e.beginExec(e.ctx, sprites.Exec{Cmd: []string{"sh", "-c", "mkdir -p /workspace; echo kept > /workspace/f; echo ready; sleep 600"}})
		p, err := e.client.Checkpoint(e.ctx, e.name, "")
		if err != nil {
			e.Fatal(err)
		}
		if list, err := e.client.Sessions(e.ctx, e.name); err != nil || len(list) != 1 || list[0].ID != id {
			e.Errorf("Sessions = %+v, %v", list, err)
		}
		if err := e.client.Restore(e.ctx, e.name, p.ID); err != nil {
			e.Error(err)
		}
		if code, err := result(); err == nil && code == 0 {
			e.Error("the restore left a command that succeeded")
		}
		if got := e.mustRun("cat /workspace/f"); got != "kept\n" {
			e.Errorf("after restore = %q", got)
		}
	},
	"restore of an unknown checkpoint fails": func(e env) {
		if err := e.client.Restore(e.ctx, e.name, "v999"); err == nil {
			e.Error("Restore = nil")
		}
	},
	"restore keeps the state before it": func(e env) {
		e.requireCapability("auto-checkpoint")
		p, err := e.client.Checkpoint(e.ctx, e.name, "")
		if err != nil {
			e.Fatal(err)
		}
		e.mustRun("echo precious > /workspace/f")
		for range 4 {
			if err := e.client.Restore(e.ctx, e.name, p.ID); err != nil {
				e.Fatal(err)
			}
		}
		var all []sprites.Checkpoint
		e.getJSON("/checkpoints?includeAuto=true", &all)
		autos := 0
		for _, c := range all {
			if c.IsAuto {
				autos++
			}
		}
		if autos != 2 || all[0].ID != sprites.Current {
			e.Errorf("checkpoints = %+v, want Current first and 2 automatic ones", all)
		}
	},
	"a sprite checkpoints itself": func(e env) {
		e.requireCapability("inside")
		if code, _, _ := e.runScript("command -v curl", nil); code != 0 {
			e.Skip("there is no curl inside")
		}
		const curl = "curl -sS --unix-socket ${LATTICE_SOCKET:-/.sprite/api.sock} http://sprite"
		out := e.mustRun(`echo self > /workspace/f; ` + curl + `/v1/checkpoint -d '{"comment":"by myself"}'`)
		list, err := e.client.Checkpoints(e.ctx, e.name)
		if err != nil || len(list) != 1 || list[0].Comment != "by myself" || !strings.Contains(out, `"checkpoint_id":"`+list[0].ID+`"`) {
			e.Fatalf("said %q, Checkpoints = %+v, %v", out, list, err)
		}
		for _, path := range []string{"/v1/sprites", "/v1/sprites/" + e.name, "/v1/checkpoints/" + list[0].ID + "/restore"} {
			if got := e.mustRun(curl + path + ` -o /dev/null -w '%{http_code}' -X POST`); got != "404" && got != "405" {
				e.Errorf("POST %s from inside = %s", path, got)
			}
		}
	},
}

var manageTests = map[string]func(env){
	"a taken name is a conflict": func(e env) {
		_, err := e.client.Create(e.ctx, sprites.Create{Name: e.name})
		var api *sprites.APIError
		if !errors.As(err, &api) || api.Status != http.StatusConflict && api.Status != http.StatusBadRequest {
			e.Errorf("second Create = %v, want 409", err)
		}
	},
	"sprites are listed by prefix": func(e env) {
		list, err := e.client.List(e.ctx, e.name)
		if err != nil || len(list) != 1 || list[0].Name != e.name {
			e.Errorf("List = %+v, %v", list, err)
		}
		if _, err := e.client.Get(e.ctx, "no-such-sprite"); !errors.Is(err, sprites.ErrNotFound) {
			e.Errorf("Get of none = %v, want ErrNotFound", err)
		}
	},
	"web pages and strangers are kept out": func(e env) {
		e.requireCapability("guard")
		for name, change := range map[string]func(*http.Request){
			"rebound name": func(r *http.Request) { r.Host = "evil.example:80" },
			"web origin":   func(r *http.Request) { r.Header.Set("Origin", "http://localhost:3000") },
			"wrong token":  func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") },
		} {
			if got := e.sendRequest("", change, nil); got != http.StatusForbidden && got != http.StatusUnauthorized {
				e.Errorf("%s: status %d, want 403 or 401", name, got)
			}
		}
	},
}

func (e env) getJSON(path string, out any) (status int) {
	e.Helper()
	return e.sendRequest(path, func(*http.Request) {}, out)
}

// sendRequest asks for a path below the sprite's.
func (e env) sendRequest(path string, change func(*http.Request), out any) (status int) {
	e.Helper()
	req, err := http.NewRequestWithContext(e.ctx, http.MethodGet, e.target.BaseURL+"/v1/sprites/"+e.name+path, nil)
	if err != nil {
		e.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.target.Token)
	change(req)
	res := e.doRequest(req)
	defer res.Body.Close()
	if out != nil {
		if err := json.NewDecoder(res.Body).Decode(out); err != nil {
			e.Fatal(err)
		}
	}
	return res.StatusCode
}

// doRequest sends a request over the target's client; the caller closes the answer's body.
func (e env) doRequest(req *http.Request) *http.Response {
	e.Helper()
	hc := e.target.HTTPClient
	if hc == nil {
		hc = http.DefaultClient
	}
	res, err := hc.Do(req)
	if err != nil {
		e.Fatal(err)
	}
	return res
}
