package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever a client writes, it is answered in JSON-RPC, and the session goes on.
func TestLinesThatAreNoMessages(t *testing.T) {
	tests := map[string]struct {
		version, line string
		id            any
		code          float64 // of the answer
	}{
		"no JSON":             {line: `not json`, code: -32700},
		"no UTF-8":            {line: "\xff\xfe", code: -32700},
		"two on a line":       {line: `{"jsonrpc":"2.0","id":5,"method":"ping"}{}`, code: -32700},
		"deep":                {line: strings.Repeat("[", 100_000), code: -32700},
		"huge":                {line: `"` + strings.Repeat("x", maxMessage), code: -32600},
		"empty":               {line: `{}`, code: -32600},
		"a number":            {line: `7`, code: -32600},
		"null":                {line: `null`, code: -32600},
		"another version":     {line: `{"jsonrpc":"1.0","id":"a","method":"ping"}`, id: "a", code: -32600},
		"an id of members":    {line: `{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`, code: -32600},
		"empty batch":         {version: "2025-03-26", line: `[]`, code: -32600},
		"batch of rubbish":    {version: "2025-03-26", line: `[1]`, code: -32600},
		"batch, not any more": {version: "2025-11-25", line: `[{"jsonrpc":"2.0","id":5,"method":"ping"}]`, code: -32600},
		"a request, CR LF":    {line: "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}\r", id: "a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, env := sprite(t)
			s, err := New(nil, Options{Env: env, Stderr: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			in, client := io.Pipe()
			answers, out := io.Pipe()
			ended := make(chan error, 1)
			go func() { ended <- s.Stdio(t.Context(), in, out); out.Close() }()
			from := bufio.NewScanner(answers)
			ask := func(line string) (answer struct {
				ID    any
				Error struct{ Code float64 }
			}) {
				if _, err := fmt.Fprintln(client, line); err != nil {
					t.Fatal(err)
				}
				if !from.Scan() {
					t.Fatalf("no answer to %.80q", line)
				}
				if err := json.Unmarshal(from.Bytes(), &answer); err != nil {
					t.Fatalf("answer to %.80q: %s: %v", line, from.Bytes(), err)
				}
				return answer
			}
			version := test.version
			if version == "" {
				version = "2025-11-25"
			}
			ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			fmt.Fprintln(client, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			got := ask(test.line)
			if diff := cmp.Diff([]any{test.id, test.code}, []any{got.ID, got.Error.Code}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if after := ask("\n" + `{"jsonrpc":"2.0","id":2,"method":"ping"}`); after.ID != 2.0 || after.Error.Code != 0 {
				t.Errorf("ping behind it = %v", after)
			}
			client.Close()
			if from.Scan() {
				t.Errorf("%q behind the end", from.Bytes())
			}
			if err := <-ended; err != nil {
				t.Errorf("Stdio = %v", err)
			}
		})
	}
}

// In the versions of the protocol that have batches, one is answered with one array.
func TestBatch(t *testing.T) {
	_, env := sprite(t)
	s, err := New(nil, Options{Env: env, Stderr: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	in, client := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Stdio(t.Context(), in, out); out.Close() }()
	from := bufio.NewScanner(answers)
	fmt.Fprintln(client, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	from.Scan()
	fmt.Fprintln(client, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	fmt.Fprintln(client, `[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","id":3,"method":"tools/list"}]`)
	from.Scan()
	var batch []struct{ ID int }
	if err := json.Unmarshal(from.Bytes(), &batch); err != nil || len(batch) != 2 || batch[0].ID != 2 || batch[1].ID != 3 {
		t.Errorf("the answer to a batch is %s, %v", from.Bytes(), err)
	}
	client.Close()
	for from.Scan() {
	}
	if err := <-ended; err != nil {
		t.Errorf("Stdio = %v", err)
	}
}
