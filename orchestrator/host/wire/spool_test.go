package wire

import (
	"errors"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestSpool(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most int64
		sent []int // bytes of the pieces
		err  error // of the last one
	}{
		"nothing":            {0, nil, nil},
		"in memory":          {0, []int{10, spoolMemory - 10}, nil},
		"in a file":          {0, []int{spoolMemory + 1}, nil},
		"in both":            {0, []int{10, spoolMemory, 5}, nil},
		"as much as allowed": {100, []int{50, 50}, nil},
		"more than allowed":  {100, []int{50, 51}, ErrLongAnswer},
		"more at once":       {100, []int{101}, ErrLongAnswer},
	} {
		dir := t.TempDir()
		s := &Spool{Dir: dir, Most: c.most}
		var want strings.Builder
		var err error
		for i, n := range c.sent {
			piece := strings.Repeat(string(rune('a'+i)), n)
			if _, err = s.Write([]byte(piece)); err == nil {
				want.WriteString(piece)
			}
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		answer := httptest.NewRecorder()
		s.Send(answer, "text/plain")
		if got := answer.Body.String(); got != want.String() || answer.Header().Get("Content-Type") != "text/plain" {
			t.Errorf("%s: %d bytes come back, want the %d that were kept", name, len(got), want.Len())
		}
		s.Close()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", name, left, err)
		}
	}
}
