package execs

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

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
