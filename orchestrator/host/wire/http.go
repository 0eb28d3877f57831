// Package wire is the part of the Sprites API that all calls share: errors and their status codes, JSON and NDJSON bodies,
// and WebSocket messages.
package wire

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/coder/websocket"

	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Version is the version of the API, by which clients choose their dialect.
const Version = "v0.0.1-rc48"

// MaxBody bounds the body of a management call.
const MaxBody = 1 << 20

// Error is an answer that refuses a request.
type Error struct {
	Status  int
	Code    string // the `error` member
	Message string
}

func Refuse(status int, code, message string) *Error { return &Error{status, code, message} }

func (e *Error) Error() string { return e.Message }

// HostName is the name of a Host header, without its port.
func HostName(header string) string {
	if name, _, err := net.SplitHostPort(header); err == nil {
		header = name
	}
	return strings.ToLower(strings.TrimSuffix(header, "."))
}

// IsQuery reports whether all of a query is understood. Otherwise a part, of a command perhaps, would be left out silently.
func IsQuery(query string) bool {
	_, err := url.ParseQuery(query)
	return err == nil
}

// IsLoopback reports whether a Host header names this machine and no other.
func IsLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// TextError is answered with a line of text instead of JSON, as the API has it for sessions.
type TextError struct{ error }

func (e TextError) Unwrap() error { return e.error }

// AsText makes the errors of a handler lines of text.
func AsText(fn func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := fn(w, r); err != nil {
			return TextError{err}
		}
		return nil
	}
}

// Classify is the one table from errors to answers.
func Classify(err error) *Error {
	var api *Error
	var degraded Degraded
	switch {
	case errors.As(err, &api):
		return api
	case errors.Is(err, records.ErrDamaged):
		return Refuse(http.StatusInternalServerError, sprites.CodeDamaged, err.Error())
	case errors.Is(err, records.ErrNoSprite):
		return Refuse(http.StatusNotFound, records.ErrNoSprite.Error(), "")
	case errors.Is(err, records.ErrNoCheckpoint):
		return Refuse(http.StatusNotFound, records.ErrNoCheckpoint.Error(), "")
	case errors.Is(err, records.ErrNameTaken):
		return Refuse(http.StatusConflict, "name_conflict", err.Error())
	case errors.As(err, &degraded):
		return Refuse(http.StatusConflict, "degraded", err.Error())
	case errors.Is(err, spec.ErrDied): // first, because the cause of that end may be any of the next ones
		return Refuse(http.StatusBadGateway, sprites.CodeSandboxDied, err.Error()+"; whether the command began is not known")
	case spec.Short(err): // which ENOSPC also is where it is of namespaces
		return Refuse(http.StatusServiceUnavailable, sprites.CodeShortage, err.Error()+"; try again in a moment")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return Refuse(http.StatusInsufficientStorage, "disk_full", "the disk that holds the sprites is full; nothing was changed, free some space and try again")
	case errors.Is(err, ErrClosing), errors.Is(err, records.ErrClosed), errors.Is(err, context.Canceled):
		return Unavailable
	}
	return Refuse(http.StatusInternalServerError, "internal", err.Error())
}

func WriteError(w http.ResponseWriter, e *Error) {
	body := map[string]string{"error": e.Code}
	if e.Message != "" {
		body["message"] = e.Message
	}
	WriteJSON(w, e.Status, body)
}

// WriteJSON answers with v. That a client has left is not an error.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// ReadJSON decodes a body into v; an empty body leaves v alone. Unknown members are ignored: clients send more than we
// offer.
func ReadJSON(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, v)
	}
	var tooLarge *http.MaxBytesError
	var mistyped *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return BadRequest(fmt.Sprintf("%s cannot be a JSON %s", mistyped.Field, mistyped.Value))
	case errors.As(err, &tooLarge):
		return Refuse(http.StatusRequestEntityTooLarge, "too_large", "the request body is larger than 1 MiB")
	}
	return BadRequest("the request body is not the JSON that was expected: " + err.Error())
}

func BadRequest(message string) *Error {
	return Refuse(http.StatusBadRequest, "bad_request", message)
}

// QueryDuration reads a duration from the query.
func QueryDuration(r *http.Request, name string, otherwise, most time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	d, err := ParseDuration(text)
	if err != nil {
		return 0, BadRequest(name + ": " + err.Error())
	}
	return min(d, most), nil
}

// SendAll sends events together; false when the client is gone.
func (l *Lines) SendAll(events []sprites.ServiceEvent) bool {
	for _, e := range events {
		if l.enc.Encode(e) != nil {
			return false
		}
	}
	return len(events) == 0 || l.rc.Flush() == nil
}

// Lines writes NDJSON, each line at once.
type Lines struct {
	enc *json.Encoder
	rc  *http.ResponseController
}

func NewLines(w http.ResponseWriter) *Lines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	return &Lines{enc: json.NewEncoder(w), rc: http.NewResponseController(w)}
}

// Send reports whether the client is still there. If it is gone, its request continues.
func (l *Lines) Send(v any) bool { return l.enc.Encode(v) == nil && l.rc.Flush() == nil }

// Flush sends buffered lines. A client that is gone is noticed by the next write.
func (l *Lines) Flush() { _ = l.rc.Flush() }

type Degraded string

func (e Degraded) Error() string { return "sprite is degraded: " + string(e) }

var Unavailable = Refuse(http.StatusServiceUnavailable, "shutting_down", ErrClosing.Error())

var ErrClosing = errors.New("the sprite host is shutting down")

// LimitError is the refusal 429, in the words that clients of the API decide by.
type LimitError struct {
	Code, Message string
	Limit, Count  int
	Window, Retry time.Duration // 0 = does not apply
	Reset         time.Time     // when there is room again, if that is known
}

// Write answers with the limit in the body and in the header, as clients expect.
func (e *LimitError) Write(w http.ResponseWriter) {
	seconds := func(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(e.Limit))
	h.Set("X-RateLimit-Remaining", "0")
	if e.Retry > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds(e.Retry)))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(e.Reset.Unix(), 10))
	}
	WriteJSON(w, http.StatusTooManyRequests, struct {
		Error   string `json:"error"`
		Message string `json:"message"`
		Limit   int    `json:"limit"`
		Window  int    `json:"window_seconds,omitempty"`
		Retry   int    `json:"retry_after_seconds,omitempty"`
		Count   int    `json:"current_count"`
		Upgrade bool   `json:"upgrade_available"`
	}{Error: e.Code, Message: e.Message, Limit: e.Limit, Window: seconds(e.Window), Retry: seconds(e.Retry), Count: e.Count})
}

func (e *LimitError) Error() string { return e.Message }

func AcceptSocket(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	// The guard has refused every origin already.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err == nil {
		conn.SetReadLimit(-1) // messages are passed on in pieces
	}
	return conn, err
}

// CheckHandshake refuses an invalid handshake before a command is started for it.
func CheckHandshake(r *http.Request) error {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	upgrades := slices.ContainsFunc(strings.Split(strings.Join(r.Header.Values("Connection"), ","), ","), func(token string) bool {
		return strings.EqualFold(strings.TrimSpace(token), "upgrade")
	})
	if err != nil || len(key) != 16 || r.Header.Get("Sec-WebSocket-Version") != "13" || !upgrades || !r.ProtoAtLeast(1, 1) {
		return BadRequest("this is no WebSocket handshake of version 13; nothing was started")
	}
	return nil
}

func SendControl(ctx context.Context, conn *websocket.Conn, m any) bool {
	data, err := json.Marshal(m)
	return err == nil && conn.Write(ctx, websocket.MessageText, data) == nil
}

// ParseDuration reads a Go duration or a bare number of seconds; not below zero.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, bare := strconv.ParseInt(text, 10, 64); bare == nil {
		if seconds > int64(math.MaxInt64/time.Second) {
			return 0, fmt.Errorf("%q is longer than any duration", text)
		}
		d, err = time.Duration(max(seconds, -1))*time.Second, nil
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration such as 10s", text)
	}
	return d, nil
}

// MaxControl bounds a text message of a socket, in bytes.
const MaxControl = 64 << 10
