package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTraceIsSent has a run's trace arrive at a collector when the run ends, and again by lattice trace. The program in the sprite was
// told the span of its call.
func TestTraceIsSent(t *testing.T) {
	bodies := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- r.URL.Path + " " + string(body)
	}))
	defer collector.Close()
	dir, err := os.MkdirTemp(buildDir, "trace-")
	if err != nil {
		t.Fatal(err)
	}
	lattice := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(lookLattice(t), args...)
		cmd.Dir, cmd.Stderr = dir, t.Output()
		cmd.Env = append(os.Environ(), "LATTICE_HOME="+dir+"/home", "PATH="+buildDir+":"+os.Getenv("PATH"), "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("lattice %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	const flow = `{"execir_version":"1.0","id":"tell","entry_node":"exec","nodes":[{"id":"exec","op":"TOOL_CALL","tool":"exec.run","args":{"command":"echo told $TRACEPARENT","env_allow":["TRACEPARENT"]},
		"outputs":{"result":"$vars.result"}}],"edges":[],"output":{"stdout":"$vars.result.stdout"}}`
	if err := os.WriteFile(dir+"/tell.json", []byte(flow), 0o600); err != nil {
		t.Fatal(err)
	}
	said := lattice("run", "tell.json", "--json")
	_, told, _ := strings.Cut(said, `told 00-`)
	ids := strings.Split(told+"---", "-") // trace, span, flags
	sent := <-bodies
	if !strings.HasPrefix(sent, "/v1/traces {") || !strings.Contains(sent, `"traceId":"`+ids[0]+`","spanId":"`+ids[1]+`","parentSpanId":"`) || !strings.Contains(sent, `"name":"RUN tell"`) {
		t.Errorf("the sprite was told %.60q, and the collector got %s", told, sent)
	}
	printed := lattice("trace")
	if sent = strings.TrimPrefix(sent, "/v1/traces "); strings.TrimSpace(printed) != sent {
		t.Errorf("lattice trace prints %s, and the collector got %s", printed, sent)
	}
	var reply struct{ Spans int }
	if err := json.Unmarshal([]byte(lattice("trace", "--send", "--json")), &reply); err != nil || reply.Spans < 3 || <-bodies != "/v1/traces "+sent {
		t.Errorf("lattice trace --send sent %d spans, %v, or others than before", reply.Spans, err)
	}
}
