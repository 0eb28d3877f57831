package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spritekit/lattice/orchestrator/llm/llmtest"
)

// serveLLM answers as models from a script until the test ends, and writes settings that name them as SMALL_EXEC (chat
// completions), MEDIUM_PLAN (Messages) and LARGE_PLAN, which has no key: llm FILE SETTINGS.
func serveLLM(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: llm FILE SETTINGS")
	}
	var script llmtest.Script
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &script))
	server := llmtest.New(script)
	mux := http.NewServeMux()
	mux.Handle("/v1/", server)
	mux.HandleFunc("GET /asked", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, len(server.Requests())) })
	ts1 := httptest.NewServer(mux)
	ts.Defer(ts1.Close)
	ts.Setenv("LLM_URL", ts1.URL)
	class := func(name, provider, model, more string) string {
		return fmt.Sprintf("[models.%s]\nprovider = %q\nmodel = %q\nbase_url = %q\ninput_usd = 1\noutput_usd = 10\n%s\n", name, provider, model, ts1.URL+"/v1", more)
	}
	text := class("SMALL_EXEC", "openai", "small", `key_env = "TEST_LLM_KEY"`) + class("MEDIUM_PLAN", "anthropic", "middling", `key_env = "TEST_LLM_KEY"`) +
		class("LARGE_PLAN", "openai", "large", `key_env = "NO_SUCH_KEY"`) + "[llm]\norder = [\"SMALL_EXEC\", \"MEDIUM_PLAN\", \"LARGE_PLAN\"]\n"
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// asked fails unless the models were asked N times in all: asked N.
func asked(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: asked N")
	}
	resp, err := http.Get(ts.Getenv("LLM_URL") + "/asked")
	ts.Check(err)
	defer resp.Body.Close()
	var n int
	_, err = fmt.Fscan(resp.Body, &n)
	ts.Check(err)
	if (fmt.Sprint(n) == args[0]) == neg {
		ts.Fatalf("models were asked %d times, want %s", n, args[0])
	}
}
