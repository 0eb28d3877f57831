package sprites

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
)

// ErrNotFound matches every answer 404: no such sprite, session, checkpoint or file. A missing file matches
// [fs.ErrNotExist] as well, a missing sprite does not.
var ErrNotFound = errors.New("not found")

// APIError is an answer that refuses the request, or a failure reported inside a progress stream.
type APIError struct {
	Status  int    // HTTP status; 200 for a failure reported inside a stream
	Code    string // of file calls an errno name such as "ENOENT", else the machine-readable `error` member, may be ""
	Message string
	Path    string // of file calls
}

func (e *APIError) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	if e.Message == "" {
		b.WriteString(strings.ToLower(http.StatusText(e.Status)))
	}
	if e.Path != "" {
		fmt.Fprintf(&b, ": %s", e.Path)
	}
	if e.Status != http.StatusOK {
		fmt.Fprintf(&b, " (status %d)", e.Status)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrNotFound) and errors.Is(err, fs.ErrNotExist) work.
func (e *APIError) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Status == http.StatusNotFound
	case fs.ErrNotExist:
		return e.Status == http.StatusNotFound && e.Code == "ENOENT"
	case fs.ErrExist:
		return e.Code == "EEXIST"
	case fs.ErrPermission:
		return e.Code == "EACCES" || e.Code == "EPERM"
	}
	return false
}

// LostError says that the connection to a running command ended before its exit was reported. The outcome is unknown:
// the command may have ended, or run on for its time after disconnect.
type LostError struct {
	Session string // "" when the connection was lost before the session was named
	Err     error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("lost session %q before its exit was known: %v", e.Session, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// CodeSandboxDied is the code of an embedded host's answer 502 to an exec: the sandbox ended while the command was being
// started, which may or may not have begun.
const CodeSandboxDied = "sandbox_died"

// maxErrorBody bounds what is read of a refusal.
const maxErrorBody = 64 << 10

func readAPIError(res *http.Response) *APIError {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil && len(body) == 0 {
		return &APIError{Status: res.StatusCode, Message: err.Error()}
	}
	return parseAPIError(res.StatusCode, body)
}

// parseAPIError reads the two JSON shapes that servers use; anything else becomes the message verbatim.
func parseAPIError(status int, body []byte) *APIError {
	var in struct{ Error, Message, Code, Path string }
	if json.Unmarshal(body, &in) != nil {
		return &APIError{Status: status, Message: strings.TrimSpace(string(body))}
	}
	e := &APIError{Status: status, Code: in.Code, Message: in.Message, Path: in.Path}
	if e.Message == "" {
		e.Message = in.Error
	} else if e.Code == "" {
		e.Code = in.Error
	}
	return e
}
