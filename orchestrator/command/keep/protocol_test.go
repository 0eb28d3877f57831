package keep

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/spritekit/lattice/orchestrator/cli"
)

// protocolCmd runs "lattice protocol args…".
func protocolCmd(in io.Reader, args ...string) (stdout, stderr string, err error) {
	var out, diagnosis bytes.Buffer
	cmd := newProtocolCmd()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetIn(in)
	cmd.SetOut(&out)
	cmd.SetErr(&diagnosis)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return out.String(), diagnosis.String(), err
}

func TestProtocolParse(t *testing.T) {
	t.Parallel()
	in := "hello\r\nLATTICE_EVENT {\"type\":\"blocked\",\"reason\":\"no key\"}\nLATTICE_EVENT nonsense\nlast"
	want := `{"kind":"output","text":"hello"}
{"kind":"event","event":{"event_type":"INFO","payload":{"message":"no key","kind":"blocked"}},"legacy":true,"problems":[]}
{"kind":"output","text":"LATTICE_EVENT nonsense"}
{"kind":"warning","code":"no_event","line":3,"detail":"not readable as JSON: byte 0: expected a value"}
{"kind":"output","text":"last"}
`
	got, _, err := protocolCmd(strings.NewReader(in), "parse")
	if err != nil || got != want {
		t.Errorf("parse prints %s, %v\nwant %s", got, err, want)
	}
	broken := errors.New("broken")
	got, _, err = protocolCmd(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), "parse")
	if !errors.Is(err, broken) || got != "{\"kind\":\"output\",\"text\":\"a\"}\n{\"kind\":\"output\",\"text\":\"b\"}\n" {
		t.Errorf("a broken input prints %q, %v", got, err)
	}
}

// TestProtocolParseIsLive: input that trickles is printed line by line.
func TestProtocolParseIsLive(t *testing.T) {
	t.Parallel()
	in, feed := io.Pipe()
	shown, out := io.Pipe()
	done := make(chan error)
	go func() {
		err := parseStream(in, out)
		out.CloseWithError(err)
		done <- err
	}()
	for _, line := range []string{"one", "two"} {
		if _, err := io.WriteString(feed, line+"\n"); err != nil {
			t.Fatal(err)
		}
		want := `{"kind":"output","text":"` + line + "\"}\n"
		got := make([]byte, len(want))
		if _, err := io.ReadFull(shown, got); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	feed.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestProtocolReconcile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	outbox := write("outbox.jsonl", `{"event_type":"INFO","event_id":"2","timestamp":"2026-01-01T00:00:02Z","payload":{"message":"b"}}
{"event_type":"INFO","event_id":"1","timestamp":"2026-01-01T00:00:01Z","payload":{"message":"a"}}
{"event_type":"INFO","event_`)
	stream := write("stdout.txt", `output
LATTICE_EVENT {"event_type":"INFO","event_id":"1","timestamp":"2026-01-01T00:00:01Z","payload":{"message":"a"}}
LATTICE_EVENT {"event_type":"COMPLETED","timestamp":"2026-01-01T00:00:03Z","payload":{}}
`)
	want := `{"source":"both","event":{"event_type":"INFO","event_id":"1","timestamp":"2026-01-01T00:00:01Z","payload":{"message":"a"}}}
{"source":"outbox","event":{"event_type":"INFO","event_id":"2","timestamp":"2026-01-01T00:00:02Z","payload":{"message":"b"}}}
{"source":"stream","event":{"event_type":"COMPLETED","timestamp":"2026-01-01T00:00:03Z","payload":{}}}
`
	got, diagnosis, err := protocolCmd(nil, "reconcile", "--outbox", outbox, "--stream", stream)
	if err != nil || got != want {
		t.Errorf("reconcile prints %s, %v\nwant %s", got, err, want)
	}
	for _, want := range []string{"outbox.jsonl:3: no_event: ", "stdout.txt:3: /payload/status is required"} {
		if !strings.Contains(diagnosis, want) {
			t.Errorf("diagnosis %q does not say %q", diagnosis, want)
		}
	}

	piped, err := os.Open(stream)
	if err != nil {
		t.Fatal(err)
	}
	defer piped.Close()
	got, _, err = protocolCmd(piped, "reconcile", "--outbox", filepath.Join(dir, "none"), "--stream", "-")
	if err != nil || strings.Count(got, `{"source":"stream"`) != 2 {
		t.Errorf("a missing outbox with --stream - prints %s, %v", got, err)
	}
	if got, _, err = protocolCmd(nil, "reconcile", "--outbox", filepath.Join(dir, "none")); err != nil || got != "" {
		t.Errorf("a missing outbox alone prints %q, %v", got, err)
	}
	var usage cli.UsageError
	if _, _, err = protocolCmd(nil, "reconcile"); !errors.As(err, &usage) {
		t.Errorf("without --outbox: %v, want a usage error", err)
	}
	if _, _, err = protocolCmd(nil, "reconcile", "--outbox", outbox, "--stream", filepath.Join(dir, "none")); err == nil {
		t.Error("a missing stream is no error")
	}
	if _, _, err = protocolCmd(nil, "reconcile", "--outbox", dir); err == nil {
		t.Error("a directory as outbox is no error")
	}
}
