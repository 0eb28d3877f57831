package local

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// chunked hides the length of a body.
type chunked struct{ io.Reader }

// What goes in comes out, however the body is sent, and large outputs do not take a pause for every few bytes of input.
func TestPostTakesInput(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	w.sprite("s")
	want := strings.Repeat("0123456789abcde\n", 1<<16) // 1 MiB
	for name, c := range map[string]struct {
		body   io.Reader
		expect string
	}{
		"known length":    {strings.NewReader(want), ""},
		"chunked":         {chunked{strings.NewReader(want)}, ""},
		"asks beforehand": {strings.NewReader(want), "100-continue"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", w.server+"/v1/sprites/s/exec?cmd=cat&stdin=true", c.body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Expect", c.expect)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		out, exited := bytes.CutSuffix(got, []byte("\x03\x00"))
		frames := bytes.Count(out, []byte{1})
		if err != nil || !exited || string(bytes.ReplaceAll(out, []byte{1}, nil)) != want {
			t.Errorf("%s: %d bytes, exit told: %t, %v", name, len(got), exited, err)
		}
		if most := 64; frames > most {
			t.Errorf("%s: %d frames, want at most %d", name, frames, most)
		}
	}
}

// A body that breaks off is no end of input.
func TestPostBodyThatBreaksOff(t *testing.T) {
	broken := &exactly{strings.NewReader("half"), 8}
	got, err := io.ReadAll(broken)
	if string(got) != "half" || err != io.ErrUnexpectedEOF {
		t.Errorf("Read = %q, %v, want %v", got, err, io.ErrUnexpectedEOF)
	}
	var whole exactly
	if got, err := io.ReadAll(&whole); len(got) > 0 || err != nil {
		t.Error(fmt.Sprintf("an empty body = %q", got), err)
	}
}
