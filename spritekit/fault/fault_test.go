package fault_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func TestConstructors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		make      func(code, format string, args ...any) *fault.Error
		exit      int
		retryable bool
	}{
		{fault.Failed, protocol.ExitFailed, false}, {fault.BadInput, protocol.ExitBadInput, false}, {fault.NotFound, protocol.ExitNotFound, false},
		{fault.Denied, protocol.ExitDenied, false}, {fault.Network, protocol.ExitNetwork, true}, {fault.Busy, protocol.ExitBusy, true},
		{fault.Unsafe, protocol.ExitUnsafe, false}, {fault.Unsupported, protocol.ExitUnsupported, false}, {fault.Limit, protocol.ExitLimit, false},
		{fault.Internal, protocol.ExitInternal, false}, {fault.Timeout, protocol.ExitTimeout, true}, {fault.Cancelled, protocol.ExitCancelled, false},
	} {
		e := tt.make("some_code", "%d files are missing", 3)
		if e.Exit != tt.exit || e.Code != "some_code" || e.Error() != "3 files are missing" || e.Retryable != tt.retryable {
			t.Errorf("exit %d: %+v", tt.exit, e)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	e := fault.NotFound("run_not_found", "there is no run %s", "x").WithHint("lattice runs").WithDetails(map[string]int{"n": 1})
	got, err := json.Marshal(e)
	const want = `{"error":{"code":"run_not_found","message":"there is no run x","hint":"lattice runs","retryable":false,"details":{"n":1}},"exit":3}`
	if err != nil || string(got) != want {
		t.Errorf("Marshal = %s, %v, want %s", got, err, want)
	}
	if back := new(fault.Error); json.Unmarshal(got, back) != nil || back.Code != e.Code || back.Exit != e.Exit {
		t.Errorf("Unmarshal = %+v", back)
	}
}

func TestWithHintCopies(t *testing.T) {
	t.Parallel()
	sentinel := fault.Failed("x", "no")
	_ = sentinel.WithHint("try again")
	if sentinel.Hint != "" {
		t.Error("WithHint changed its receiver")
	}
	if d := fault.Failed("x", "no").WithDetails(make(chan int)).Details; !json.Valid(d) {
		t.Errorf("details that cannot be encoded = %s, want their text", d)
	}
}

func TestAs(t *testing.T) {
	t.Parallel()
	e := fault.Busy("locked", "in use")
	if fault.As(fmt.Errorf("open: %w", e)) != e || fault.As(fmt.Errorf("open")) != nil || fault.As(nil) != nil {
		t.Error("As does not find the failure in a chain, and nil elsewhere")
	}
}
