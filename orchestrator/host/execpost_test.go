package host

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
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

// Some clients take what they read at once for a frame, 32 KiB at most: no frame is longer.
func TestPostFramesFitIntoARead(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	w.sprite("s")
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.server, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /v1/sprites/s/exec?cmd=head&cmd=-c300000&cmd=/dev/zero HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
	in := bufio.NewReader(conn)
	for line := "head"; line != "\r\n"; {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	var frames []int
	for {
		var size int
		if _, err := fmt.Fscanf(in, "%x\r\n", &size); err != nil {
			t.Fatalf("after frames of %v bytes: %v", frames, err)
		}
		if size == 0 {
			break
		}
		frame := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, frame); err != nil {
			t.Fatal(err)
		}
		if frames = append(frames, size); size > 32<<10 {
			t.Errorf("a frame of %d bytes", size)
		}
	}
	if want := 300000/(32<<10) + 2; len(frames) < want { // and the exit
		t.Errorf("frames of %v bytes, want %d at least", frames, want)
	}
}
