package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// CanAsk reports whether a person at a terminal can answer a question.
func (c *Console) CanAsk() bool { return c.Terminal && IsTerminal(c.In) && !c.JSON }

// Confirm prints a question and reads the answer. It returns true for yes.
func Confirm(ctx context.Context, console *Console, question string) (bool, error) {
	fmt.Fprint(console.Err, question)
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() { // ends with the answer, or with the process: nothing interrupts the reading of a terminal
		text, err := bufio.NewReader(console.In).ReadString('\n')
		read <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case l := <-read:
		if l.err != nil && !errors.Is(l.err, io.EOF) {
			return false, fmt.Errorf("read the answer: %w", l.err)
		}
		answer := strings.ToLower(strings.TrimSpace(l.text))
		return answer == "y" || answer == "yes", nil
	}
}
