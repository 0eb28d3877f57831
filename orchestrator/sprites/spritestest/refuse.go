package spritestest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// refusalTests check a server's answers to requests that are odd or wrong.
var refusalTests = map[string]func(env){
	"odd file requests are answered, not served": func(e env) {
		e.mustRun(`mkdir -p /workspace/x; cd /workspace/x; mkfifo fifo; ln -s b a; ln -s a b; ln -s none dangling`)
		long := "/workspace/" + strings.Repeat("d/", 3000)
		for _, try := range []struct {
			path, code string
			status     int
		}{
			{"/workspace/x/fifo", "EINVAL", 400},
			{"/workspace/x/a", "EINVAL", 400},
			{"/workspace/x/dangling", "ENOENT", 404},
			{"/workspace/x", "EISDIR", 400},
			{"/workspace/a\x00b", "EINVAL", 400},
			{"/workspace/" + strings.Repeat("n", 300), "ENAMETOOLONG", 400},
			{long, "ENAMETOOLONG", 400},
		} {
			status, body := e.sendJSON(http.MethodGet, "/fs/read?"+url.Values{"path": {try.path}}.Encode(), "")
			if status != try.status || body["code"] != try.code || body["path"] == nil || body["error"] == nil {
				e.Errorf("read %.40q = %d, %v, want %d and code %s", try.path, status, body, try.status, try.code)
			}
		}
		if status, body := e.sendJSON(http.MethodPut, "/fs/write?"+url.Values{"path": {long}}.Encode(), "x"); status != 400 {
			e.Errorf("write of a path that is too long = %d, %v", status, body)
		}
	},
	"relative files are below the working folder, else home": func(e env) {
		for query, want := range map[string]string{"path=rel": "/home/sprite/rel", "path=rel&workingDir=/workspace/d": "/workspace/d/rel"} {
			if status, body := e.sendJSON(http.MethodPut, "/fs/write?"+query, "x"); status != 200 || body["path"] != want {
				e.Errorf("write %s = %d, %v, want %s", query, status, body, want)
			}
		}
	},
	"bodies that are no JSON, or more, are refused": func(e env) {
		for _, body := range []string{"[]", "{", `{"name":"left-over"} more`, `{"name":5}`, `{}`, `{"name":"a/b"}`, `{"name":"ü"}`, `{"name":""}`,
			`{"name":"env","environment":{"A=B":"c"}}`, `{"name":"env","environment":{"A":"\u0000"}}`,
			fmt.Sprintf(`{"name":%q}`, strings.Repeat("x", 64))} {
			if status, out := e.sendTo(http.MethodPost, "/v1/sprites", body); status != http.StatusBadRequest || out["error"] == nil {
				e.Errorf("create %s = %d, %v, want 400", body, status, out)
			}
		}
		// An error names the client's own words, and no internals of the server.
		if _, out := e.sendTo(http.MethodPost, "/v1/sprites", `{"name":"left-over","labels":"x"}`); strings.Contains(fmt.Sprint(out), "Go ") {
			e.Errorf("the answer speaks of the server's program: %v", out)
		}
	},
	"settings of a sprite are kept": func(e env) {
		status, out := e.sendJSON(http.MethodPut, "", `{"labels":["a","b"],"url_settings":{"auth":"public"}}`)
		if settings, _ := out["url_settings"].(map[string]any); status != 200 || settings["auth"] != "public" {
			e.Errorf("PUT = %d, %v", status, out)
		}
		if _, out := e.sendJSON(http.MethodPut, "", `{"clear_labels":true}`); out["labels"] != nil {
			e.Errorf("after clear_labels: %v", out)
		}
		if _, out := e.sendJSON(http.MethodGet, "", ""); fmt.Sprint(out["url_settings"]) != "map[auth:public]" {
			e.Errorf("GET = %v", out)
		}
	},
	"sprites are listed page by page": func(e env) {
		want := []string{e.name}
		for _, suffix := range []string{"-1", "-2", "-3", "-4"} {
			name := e.name + suffix
			if _, err := e.client.Create(e.ctx, sprites.Create{Name: name}); err != nil {
				e.Fatal(err)
			}
			defer e.client.Delete(e.ctx, name)
			want = append(want, name)
		}
		var got []string
		for token := ""; ; {
			status, page := e.sendTo(http.MethodGet, "/v1/sprites?max_results=2&prefix="+e.name+"&continuation_token="+token, "")
			list, _ := page["sprites"].([]any)
			if status != 200 || len(list) == 0 || len(list) > 2 {
				e.Fatalf("page = %d, %v", status, page)
			}
			for _, s := range list {
				got = append(got, fmt.Sprint(s.(map[string]any)["name"]))
			}
			if page["has_more"] != true {
				break
			}
			token = url.QueryEscape(fmt.Sprint(page["next_continuation_token"]))
		}
		if !slices.Equal(got, want) {
			e.Errorf("names = %q, want %q", got, want)
		}
		for _, limit := range []string{"100", "0", "-1", "abc"} {
			if status, _ := e.sendTo(http.MethodGet, "/v1/sprites?max_results="+limit, ""); status != 200 {
				e.Errorf("max_results=%s: status %d", limit, status)
			}
		}
	},
	"a kill in a missing sprite or session is 404": func(e env) {
		for _, path := range []string{"/v1/sprites/no-such-sprite/exec/1/kill", "/v1/sprites/" + e.name + "/exec/1/kill"} {
			e.requestTo(http.MethodPost, path, func(res *http.Response) {
				if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusNotFound || !strings.HasPrefix(kind, "text/plain") {
					e.Errorf("%s = %d, %s, want a line of text", path, res.StatusCode, kind)
				}
			})
		}
	},
}

// sendJSON makes a request below the sprite's path and returns the JSON object of the answer.
func (e env) sendJSON(method, path, body string) (status int, out map[string]any) {
	e.Helper()
	return e.sendTo(method, "/v1/sprites/"+e.name+path, body)
}

func (e env) sendTo(method, path, body string) (status int, out map[string]any) {
	e.Helper()
	req, err := http.NewRequestWithContext(e.ctx, method, e.target.BaseURL+path, strings.NewReader(body))
	if err != nil {
		e.Fatal(err)
	}
	req.Header.Set("Authorization", "bearer "+e.target.Token) // the scheme's case does not matter
	res := e.doRequest(req)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		e.Fatal(err)
	}
	if len(bytes.TrimSpace(data)) > 0 {
		if err := json.Unmarshal(data, &out); err != nil {
			e.Fatalf("%s %s = %d, %q: %v", method, path, res.StatusCode, data, err)
		}
	}
	return res.StatusCode, out
}

// requestTo makes a request without a body and shows the answer to look.
func (e env) requestTo(method, path string, look func(*http.Response)) {
	e.Helper()
	req, err := http.NewRequestWithContext(e.ctx, method, e.target.BaseURL+path, nil)
	if err != nil {
		e.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.target.Token)
	res := e.doRequest(req)
	defer res.Body.Close()
	look(res)
}
