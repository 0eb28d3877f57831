package sprites

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites/backoff"
	"github.com/spritekit/lattice/orchestrator/sprites/progress"
)

// ErrNotFound matches every answer 404: no such sprite, session, checkpoint or file. A missing file matches
// [fs.ErrNotExist] as well, a missing sprite does not.
var ErrNotFound = errors.New("not found")

// errOdd marks answers of status 200 that say nothing sensible.
var errOdd = errors.New("that is no answer of a Sprites API")

// APIError is an answer that refuses the request, or a failure reported inside a progress stream.
type APIError struct {
	Status     int    // HTTP status; 200 for a failure reported inside a stream
	Code       string // of file calls an errno name such as "ENOENT", else the machine-readable `error` member, may be ""
	Message    string
	Path       string        // of file calls
	RetryAfter time.Duration // how long the server asks to wait, 0 when it does not say
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

// ConnError says that no answer came.
type ConnError struct {
	Server string // host and port
	Sent   bool   // the request may have been seen; false when there was no connection at all
	Err    error
}

func (e *ConnError) Error() string {
	switch {
	case !e.Sent:
		return fmt.Sprintf("no connection to %s: %v", e.Server, e.Err)
	case errors.Is(e.Err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer from %s in time: %v", e.Server, e.Err)
	}
	return fmt.Sprintf("the connection to %s broke: %v", e.Server, e.Err)
}

func (e *ConnError) Unwrap() error { return e.Err }

// ForeignError is an answer that did not come from the API: a proxy's page, a login form, another server.
type ForeignError struct {
	Status int
	Kind   string // Content-Type
	Text   string // how it begins
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("something else than the Sprites API answered (status %d, %s): %s", e.Status, e.Kind, e.Text)
}

// LostError says that the connection to a running command ended before its exit was reported. The outcome is unknown:
// the command may have ended, or run on for its time after disconnect, or never have been started.
type LostError struct {
	Session string // "" when the connection was lost before the session was named
	Err     error
}

func (e *LostError) Error() string {
	if e.Session == "" {
		return fmt.Sprintf("the connection was lost before it was known whether the command had started: %v", e.Err)
	}
	return fmt.Sprintf("lost session %s before its exit was known: %v", e.Session, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// Uncertain reports that an operation may have been done although it failed: the connection broke, or a proxy lost
// sight of it. Without that an error means that it was not done.
func Uncertain(err error) bool {
	var lost *LostError
	var conn *ConnError
	var api *APIError
	switch {
	case err == nil:
		return false
	case errors.As(err, &lost), errors.Is(err, progress.ErrCut), errors.Is(err, errOdd):
		return true
	case errors.As(err, &conn):
		return conn.Sent
	case errors.As(err, &api):
		return isGatewayStatus(api.Status) || api.Status == http.StatusInternalServerError
	}
	return false
}

// CodeSandboxDied is the code of an embedded host's answer 502 to an exec: the sandbox ended while the command was being
// started, which may or may not have begun.
const CodeSandboxDied = "sandbox_died"

// CodeShortage is the code of an embedded host's answer 503: the machine, or the sprite, was out of something for the
// moment, processes or descriptors say. It comes with a time after which to try again; no command was started.
const CodeShortage = "shortage"

// CodeKeysKept is the code of an embedded host's answer 409 to a request that would keep the present files of a sprite: the keys
// that its agents were handed over could not be taken out of them.
const CodeKeysKept = "keys_kept"

// Codes of an embedded host's answer 500 when it cannot do anything: its own records are damaged, or it could not be opened
// for another reason.
const (
	CodeDamaged     = "sprites_damaged"
	CodeUnavailable = "sprites_unavailable"
)

// Remedy returns advice for a person about an error of the API, "" if there is none.
func Remedy(err error) string {
	var api *APIError
	var conn *ConnError
	var foreign *ForeignError
	var lost *LostError
	switch {
	case errors.As(err, &lost) && lost.Session != "":
		return "the command may still run: lattice sprite sessions NAME lists what does, lattice sprite exec NAME --attach " + lost.Session + " joins it"
	case errors.As(err, &lost):
		return "look with lattice sprite sessions NAME before you run it again"
	case errors.As(err, &foreign), errors.Is(err, errOdd):
		return "check SPRITES_API_URL, and whether a proxy on the way answers for it"
	case errors.As(err, &conn) && !conn.Sent:
		return "check SPRITES_API_URL and the network"
	case errors.As(err, &conn), errors.Is(err, progress.ErrCut):
		return "look whether it was done, then try again"
	case !errors.As(err, &api):
		return ""
	}
	switch {
	case api.Status == http.StatusUnauthorized, api.Status == http.StatusForbidden && api.Code == "":
		return "check SPRITES_TOKEN: the service does not accept it for this"
	case errors.Is(err, fs.ErrPermission):
		return "the sprite's user may not do that; choose a path below /workspace"
	case api.Status == http.StatusNotFound && api.Code == "":
		return "lattice sprite ls lists the sprites"
	case api.Status == http.StatusRequestHeaderFieldsTooLarge, api.Status == http.StatusRequestURITooLong:
		return "the command and its variables are too long to be sent: put them into a file, lattice sprite cp FILE NAME:/tmp/, or into standard input"
	case api.Code == CodeKeysKept:
		return "end the agent's run, or the commands that are in the way, and try again; lattice sprite restore goes back to an earlier checkpoint"
	case api.Status == http.StatusConflict:
		return "another operation is in its way; wait for it, or choose another name"
	case api.Status == http.StatusTooManyRequests:
		return "wait, or end sprites that are not needed: lattice sprite ls"
	case api.Code == CodeShortage:
		return "try again in a moment; if that does not help, end sprites that are not needed: lattice sprite ls"
	case api.Code == CodeDamaged:
		return "lattice store check shows the damage; runs can be read and backed up all the same. lattice store repair keeps the sprites whose records are whole, once every lattice has ended"
	case api.Code == CodeUnavailable:
		return "lattice doctor"
	case api.Status == http.StatusInsufficientStorage:
		return "free space on the disk that holds the sprites: lattice sprite rm, lattice sprite checkpoints rm, lattice image rm"
	case api.Status >= 500:
		return "the service is in trouble; try again later"
	}
	return ""
}

// maxErrorBody bounds the bytes read of an error's body.
const maxErrorBody = 64 << 10

func readAPIError(res *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil && len(body) == 0 {
		return &APIError{Status: res.StatusCode, Message: err.Error(), RetryAfter: backoff.After(res.Header)}
	}
	if at, err := res.Location(); err == nil {
		return &ForeignError{Status: res.StatusCode, Kind: "a redirect", Text: "go to " + at.Host}
	}
	if res.StatusCode < 400 {
		return &ForeignError{Status: res.StatusCode, Kind: res.Header.Get("Content-Type"), Text: singleLineExcerpt(body)}
	}
	e := parseAPIError(res.StatusCode, body)
	if looksForeign(res.Header, body) {
		e.Message = "a proxy's page: " + singleLineExcerpt(body)
	}
	if after := backoff.After(res.Header); after > 0 {
		e.RetryAfter = after
	}
	return e
}

// looksForeign tells a web page from an answer of the API.
func looksForeign(h http.Header, body []byte) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/html") || bytes.HasPrefix(bytes.TrimSpace(body), []byte("<"))
}

// singleLineExcerpt is the beginning of a text in one line.
func singleLineExcerpt(body []byte) string {
	const most = 200
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body[:min(len(body), 4*most)]), "?")), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// parseAPIError reads the two JSON shapes that servers use; anything else becomes the message verbatim.
func parseAPIError(status int, body []byte) *APIError {
	var in struct {
		Error, Message, Code, Path string
		RetryAfter                 float64 `json:"retry_after_seconds"`
	}
	if json.Unmarshal(body, &in) != nil {
		return &APIError{Status: status, Message: strings.TrimSpace(string(body))}
	}
	e := &APIError{Status: status, Code: in.Code, Message: in.Message, Path: in.Path}
	if in.RetryAfter > 0 {
		e.RetryAfter = backoff.Seconds(in.RetryAfter)
	}
	if e.Message == "" {
		e.Message = in.Error
	} else if e.Code == "" {
		e.Code = in.Error
	}
	return e
}
