package sprites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

func TestReadProgress(t *testing.T) {
	for _, c := range []struct{ name, stream, id, fails string }{
		{name: "structured id wins over prose", id: "x9",
			stream: `{"type":"info","data":"ID: v1"}` + "\n" + `{"type":"complete","data":"Checkpoint v1 created","checkpoint_id":"x9"}`},
		{name: "prose id", id: "v8", stream: `{"type":"info","data":"Creating checkpoint..."}` + "\n\n" + `{"type":"complete","data":"Checkpoint v8 created"}` + "\n"},
		{name: "error line under 200", fails: "no space", stream: `{"type":"info","data":"v1"}` + "\n" + `{"type":"error","error":"no space"}`},
		{name: "error line before a complete one", fails: "broken", stream: `{"type":"error","data":"broken"}` + "\n" + `{"type":"complete","data":"v1"}`},
		{name: "cut stream", fails: "before the operation was complete", stream: `{"type":"info","data":"ID: v1"}` + "\n"},
		{name: "a web page", fails: "something else than the Sprites API", stream: "<html><title>Sign in</title>"},
		{name: "a torn line after the end", fails: "before the operation was complete", stream: `{"type":"complete","data":"v1"}` + "\n" + `{"type":"inf`},
		{name: "an error object in the stream's place", fails: "no such sprite", stream: `{"error":"no such sprite"}`},
		{name: "an error that is no text", fails: `{"code":5}`, stream: `{"type":"error","error":{"code":5}}`},
		{name: "a line beyond all bounds", fails: "longer than", stream: `{"type":"info","data":"` + strings.Repeat("x", maxProgressLine) + "\"}\n" + `{"type":"complete","data":"v1"}`},
		{name: "grease", id: "v2", stream: `{"type":"novel","x":[1],"data":{"deep":1}}` + "\n[1]\n\"word\"\n" + `{"type":"complete","data":"v2","y":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			said, err := new(Client).readProgress(&http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(c.stream))})
			id := said.ID
			if c.fails == "" && (err != nil || id != c.id) {
				t.Errorf("readProgress = %q, %v, want %q", id, err, c.id)
			}
			if c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("readProgress = %q, %v, want an error with %q", id, err, c.fails)
			}
		})
	}
}

// A list of sprites ends, whatever the server says.
func TestListWithoutEnd(t *testing.T) {
	pages := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		pages++
		fmt.Fprintf(w, `{"sprites":[],"has_more":true,"next_continuation_token":"t%d"}`, pages)
	}))
	defer server.Close()
	c := New(server.URL, "", server.Client())
	if all, err := c.List(t.Context(), ""); !errors.Is(err, errOdd) || pages != maxPages {
		t.Errorf("List = %d sprites, %v after %d pages, want errOdd after %d", len(all), err, pages, maxPages)
	}
}

// Checkpoints are read page by page, from a host that has pages and from one that always sends the whole list.
func TestCheckpointsInPages(t *testing.T) {
	for _, c := range []struct {
		paged    bool
		n, pages int
	}{{true, 0, 1}, {true, 199, 2}, {true, 450, 3}, {false, 0, 1}, {false, 199, 2}, {false, 450, 1}} {
		pages := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			pages++
			all := []Checkpoint{{ID: Current}}
			for id := c.n; id > 0; id-- {
				all = append(all, Checkpoint{ID: fmt.Sprint("v", id)})
			}
			if q := r.URL.Query(); c.paged {
				at := slices.IndexFunc(all, func(p Checkpoint) bool { return p.ID == q.Get("before") })
				most, _ := strconv.Atoi(q.Get("max_results"))
				all = all[at+1:]
				all = all[:min(most, len(all))]
			}
			_ = json.NewEncoder(w).Encode(all)
		}))
		all, err := New(server.URL, "", server.Client()).Checkpoints(t.Context(), "s")
		server.Close()
		if err != nil || len(all) != c.n || c.n > 0 && all[c.n-1].ID != "v1" || pages != c.pages {
			t.Errorf("%+v: %d checkpoints in %d pages, %v", c, len(all), pages, err)
		}
	}
}

func TestParseAPIError(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   APIError
		is     []error
		isNot  []error
	}{
		{"missing sprite", 404, `{"error":"sprite not found"}`, APIError{Status: 404, Message: "sprite not found"}, []error{ErrNotFound}, []error{fs.ErrNotExist}},
		{"missing file", 404, `{"error":"no such file or directory","code":"ENOENT","path":"/x"}`,
			APIError{Status: 404, Code: "ENOENT", Message: "no such file or directory", Path: "/x"}, []error{ErrNotFound, fs.ErrNotExist}, nil},
		{"code and message", 429, `{"error":"limited","message":"slow down","limit":3}`, APIError{Status: 429, Code: "limited", Message: "slow down"}, nil, []error{ErrNotFound}},
		{"plain text", 500, "oops\n", APIError{Status: 500, Message: "oops"}, nil, []error{ErrNotFound}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := parseAPIError(c.status, []byte(c.body))
			if *got != c.want {
				t.Errorf("parseAPIError = %+v, want %+v", *got, c.want)
			}
			for _, e := range c.is {
				if !errors.Is(got, e) {
					t.Errorf("errors.Is(%v, %v) = false", got, e)
				}
			}
			for _, e := range c.isNot {
				if errors.Is(got, e) {
					t.Errorf("errors.Is(%v, %v) = true", got, e)
				}
			}
		})
	}
}

// serve answers every exec by what say sends.
func serve(t *testing.T, say func(context.Context, *websocket.Conn)) *Client {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		say(r.Context(), conn)
	}))
	t.Cleanup(server.Close)
	return New(server.URL, "", server.Client())
}

func TestExecExit(t *testing.T) {
	text := func(s string) func(context.Context, *websocket.Conn) {
		return func(ctx context.Context, c *websocket.Conn) { _ = c.Write(ctx, websocket.MessageText, []byte(s)) }
	}
	binary := func(s string) func(context.Context, *websocket.Conn) {
		return func(ctx context.Context, c *websocket.Conn) { _ = c.Write(ctx, websocket.MessageBinary, []byte(s)) }
	}
	closed := func(ctx context.Context, c *websocket.Conn) { _ = c.Close(websocket.StatusNormalClosure, "") }
	info := text(`{"type":"session_info","session_id":"7"}`)
	for _, c := range []struct {
		name string
		says []func(context.Context, *websocket.Conn)
		code int
		out  string
		lost bool
	}{
		{name: "both forms", says: []func(context.Context, *websocket.Conn){info, binary("\x01hi"), text(`{"type":"exit","exit_code":3}`), binary("\x03\x03"), closed}, code: 3, out: "hi"},
		{name: "binary only", says: []func(context.Context, *websocket.Conn){info, binary("\x01hi"), binary("\x03\x04")}, code: 4, out: "hi"},
		{name: "text only", says: []func(context.Context, *websocket.Conn){info, text(`{"type":"exit","exit_code":300}`), closed}, code: 300},
		{name: "output after the binary exit", says: []func(context.Context, *websocket.Conn){info, binary("\x03\x00"), binary("\x01late"), text(`{"type":"exit","exit_code":0}`), closed}, out: "late"},
		{name: "exits that contradict", says: []func(context.Context, *websocket.Conn){info, text(`{"type":"exit","exit_code":0}`), binary("\x03\x01"), closed}, lost: true},
		{name: "output after the text exit", says: []func(context.Context, *websocket.Conn){info, text(`{"type":"exit","exit_code":0}`), binary("\x01late"), binary("\x03\x00"), closed}, out: "late"},
		{name: "no session_info, grease", says: []func(context.Context, *websocket.Conn){text(`{"type":"novel"}`), text("{"), binary(""), binary("\x09x"), binary("\x01hi"), binary("\x03\x00")}, out: "hi"},
		{name: "clean close without an exit", says: []func(context.Context, *websocket.Conn){info, binary("\x01hi"), closed}, out: "hi", lost: true},
		{name: "dropped", says: []func(context.Context, *websocket.Conn){info}, lost: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := serve(t, func(ctx context.Context, conn *websocket.Conn) {
				for _, say := range c.says {
					say(ctx, conn)
				}
			})
			var out strings.Builder
			code, err := client.Exec(t.Context(), "s", Exec{Cmd: []string{"x"}, Stdout: &out})
			var lost *LostError
			if errors.As(err, &lost) != c.lost || !c.lost && err != nil || code != c.code || out.String() != c.out {
				t.Errorf("Exec = %d, %v with output %q, want %d, lost %v, %q", code, err, out.String(), c.code, c.lost, c.out)
			}
			if c.lost && lost.Session != "7" {
				t.Errorf("lost session = %q, want 7", lost.Session)
			}
		})
	}
}
