// Package cli holds what the two programs of spritekit share as commands: errors of usage, exit codes, signals, flags.
// Start with Usagef and Exit, which turns any error into words and an exit code. It reads no arguments and no environment.
package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// usageError asks for the exit code of bad input and a pointer to the help.
type usageError struct{ message string }

func (e usageError) Error() string { return e.message }

// Usagef returns an error of usage.
func Usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// Exit says on stderr why the command name failed, in words or as JSON, and returns its exit code.
func Exit(stderr io.Writer, name string, err error, asJSON bool) int {
	if err == nil {
		return protocol.ExitOK
	}
	e := skill.Fault(err)
	if usage := (usageError{}); errors.As(err, &usage) {
		e = fault.BadInput("usage", "%v", err).WithHint("spritekit %s --help", name)
	}
	if asJSON {
		if err := WriteJSON(stderr, map[string]any{"error": e.Fault, "exit": e.Exit}); err == nil {
			return e.Exit
		}
	}
	fmt.Fprintf(stderr, "%s: %s\n", strings.TrimSpace("spritekit "+name), e.Message)
	if e.Hint != "" {
		fmt.Fprintf(stderr, "hint: %s\n", e.Hint)
	}
	return e.Exit
}

// CancelAtSignal calls cancel at the first SIGINT or SIGTERM; the second ends the process at once. It lives as long as
// the process.
func CancelAtSignal(cancel func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals)
		cancel()
	}()
}

// TakeFlag removes name from args and reports whether it was there.
func TakeFlag(args []string, name string) ([]string, bool) {
	var rest []string
	for _, arg := range args {
		if arg != name {
			rest = append(rest, arg)
		}
	}
	return rest, len(rest) < len(args)
}

// WriteJSON writes v as one line.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
