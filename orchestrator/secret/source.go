package secret

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spritekit/lattice/spritekit/redact"
)

// Source is a secret of the settings.
type Source struct {
	Name     string
	Provider string // env, file, age, helper or app
	From     string // the variable, file or program, for people
	Variable string // in the environment of calls that get the secret
	Skills   []string
	TTL      time.Duration // of a lease at most
	Uses     int           // of a lease
	Scoped   bool          // the provider understands a scope
	// Check returns the reason why the secret cannot be read, as far as that shows without reading it.
	Check func() error
	// Resolve reads the secret. Its errors do not contain it.
	Resolve func(ctx context.Context, r Request) (string, error)
}

// Request describes the use for which a secret is read.
type Request struct {
	Name    string `json:"name"`
	Scope   string `json:"scope,omitempty"`
	Purpose string `json:"purpose,omitempty"`
	Run     string `json:"run,omitempty"`
}

// MaxSize is the size in bytes of the largest secret.
const MaxSize = 16 << 10

// minSize is the size of the smallest one: the redactor does not look for shorter values.
const minSize = max(8, redact.Shortest)

// Clean returns a value without the line end of its file. It refuses values that no variable can hold or no redactor can find.
func Clean(text string) (string, error) {
	value := strings.TrimRight(text, "\r\n")
	switch {
	case value == "":
		return "", errors.New("it is empty")
	case len(value) < minSize:
		return "", fmt.Errorf("it has fewer than %d bytes, too few to be taken out of output", minSize)
	case len(value) > MaxSize:
		return "", fmt.Errorf("it has more than %d bytes", MaxSize)
	case strings.ContainsRune(value, 0):
		return "", errors.New("it holds a NUL byte")
	}
	return value, nil
}
