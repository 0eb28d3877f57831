package host

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

	"github.com/coder/websocket"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// apiVersion is what clients choose their dialect by.
const apiVersion = "v0.0.1-rc48"

// maxJSON bounds the body of a management call.
const maxJSON = 1 << 20

// apiError is an answer that refuses a request.
type apiError struct {
	status  int
	code    string // the `error` member
	message string
}

func newError(status int, code, message string) *apiError { return &apiError{status, code, message} }

func (e *apiError) Error() string { return e.message }

// hostOnly is the name of a Host header, without its port.
func hostOnly(header string) string {
	if name, _, err := net.SplitHostPort(header); err == nil {
		header = name
	}
	return strings.ToLower(strings.TrimSuffix(header, "."))
}

// readable reports whether all of a query is understood. What is not would be left out silently: a part of a command.
func readable(query string) bool {
	_, err := url.ParseQuery(query)
	return err == nil
}

// loopback reports whether a Host header names this machine and no other.
func loopback(host string) bool {
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

// spokenError is answered with a line of text instead of JSON, as the API has it for sessions.
type spokenError struct{ error }

func (e spokenError) Unwrap() error { return e.error }

// spoken makes the errors of a handler lines of text.
func spoken(fn func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := fn(w, r); err != nil {
			return spokenError{err}
		}
		return nil
	}
}

// classify is the one table from errors to answers.
func classify(err error) *apiError {
	var api *apiError
	var degraded degradedError
	switch {
	case errors.As(err, &api):
		return api
	case errors.Is(err, ErrDamaged):
		return newError(http.StatusInternalServerError, sprites.CodeDamaged, err.Error())
	case errors.Is(err, errNoSprite):
		return newError(http.StatusNotFound, errNoSprite.Error(), "")
	case errors.Is(err, errNoCheckpoint):
		return newError(http.StatusNotFound, errNoCheckpoint.Error(), "")
	case errors.Is(err, errNameTaken):
		return newError(http.StatusConflict, "name_conflict", err.Error())
	case errors.As(err, &degraded):
		return newError(http.StatusConflict, "degraded", err.Error())
	case errors.Is(err, sandbox.ErrDied): // first, because the cause of that end may be any of the next ones
		return newError(http.StatusBadGateway, sprites.CodeSandboxDied, err.Error()+"; whether the command began is not known")
	case sandbox.Short(err): // which ENOSPC also is where it is of namespaces
		return newError(http.StatusServiceUnavailable, sprites.CodeShortage, err.Error()+"; try again in a moment")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return newError(http.StatusInsufficientStorage, "disk_full", "the disk that holds the sprites is full; nothing was changed, free some space and try again")
	case errors.Is(err, errHostClosed), errors.Is(err, errClosed), errors.Is(err, context.Canceled):
		return unavailable
	}
	return newError(http.StatusInternalServerError, "internal", err.Error())
}

func writeError(w http.ResponseWriter, e *apiError) {
	body := map[string]string{"error": e.code}
	if e.message != "" {
		body["message"] = e.message
	}
	writeJSON(w, e.status, body)
}

// writeJSON answers with v. A client that is gone is no error of ours.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// readJSON decodes a body into v; an empty body leaves v alone. Unknown members are ignored: clients send more than we
// offer.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSON))
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, v)
	}
	var tooLarge *http.MaxBytesError
	var mistyped *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return badRequest(fmt.Sprintf("%s cannot be a JSON %s", mistyped.Field, mistyped.Value))
	case errors.As(err, &tooLarge):
		return newError(http.StatusRequestEntityTooLarge, "too_large", "the request body is larger than 1 MiB")
	}
	return badRequest("the request body is not the JSON that was expected: " + err.Error())
}

func badRequest(message string) *apiError {
	return newError(http.StatusBadRequest, "bad_request", message)
}

// durationOf reads a duration from the query.
func durationOf(r *http.Request, name string, otherwise, most time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	d, err := parseDuration(text)
	if err != nil {
		return 0, badRequest(name + ": " + err.Error())
	}
	return min(d, most), nil
}

// sendAll sends events together; false when the client is gone.
func (l *lines) sendAll(events []sprites.ServiceEvent) bool {
	for _, e := range events {
		if l.enc.Encode(e) != nil {
			return false
		}
	}
	return len(events) == 0 || l.rc.Flush() == nil
}

// lines writes NDJSON, each line at once.
type lines struct {
	enc *json.Encoder
	rc  *http.ResponseController
}

func newLines(w http.ResponseWriter) *lines {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	return &lines{enc: json.NewEncoder(w), rc: http.NewResponseController(w)}
}

// send reports whether the client is still there. If it is gone, what it asked for goes on all the same.
func (l *lines) send(v any) bool { return l.enc.Encode(v) == nil && l.rc.Flush() == nil }

// flush sends what was written. A client that is gone is noticed by the next write.
func (l *lines) flush() { _ = l.rc.Flush() }

type degradedError string

func (e degradedError) Error() string { return "sprite is degraded: " + string(e) }

var unavailable = newError(http.StatusServiceUnavailable, "shutting_down", errHostClosed.Error())

var errHostClosed = errors.New("the sprite host is shutting down")

// limitError is the refusal 429, in the words that clients of the API decide by.
type limitError struct {
	code, message string
	limit, count  int
	window, retry time.Duration // 0 = does not apply
	reset         time.Time     // when there is room again, if that is known
}

// write answers with what clients read in the body and in the header.
func (e *limitError) write(w http.ResponseWriter) {
	seconds := func(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(e.limit))
	h.Set("X-RateLimit-Remaining", "0")
	if e.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds(e.retry)))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(e.reset.Unix(), 10))
	}
	writeJSON(w, http.StatusTooManyRequests, struct {
		Error   string `json:"error"`
		Message string `json:"message"`
		Limit   int    `json:"limit"`
		Window  int    `json:"window_seconds,omitempty"`
		Retry   int    `json:"retry_after_seconds,omitempty"`
		Count   int    `json:"current_count"`
		Upgrade bool   `json:"upgrade_available"`
	}{Error: e.code, Message: e.message, Limit: e.limit, Window: seconds(e.window), Retry: seconds(e.retry), Count: e.count})
}

func (e *limitError) Error() string { return e.message }

func accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	// The guard has refused every origin already.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err == nil {
		conn.SetReadLimit(-1) // messages are passed on in pieces
	}
	return conn, err
}

// checkHandshake refuses what could not become a socket before a command is started for it.
func checkHandshake(r *http.Request) error {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	upgrades := slices.ContainsFunc(strings.Split(strings.Join(r.Header.Values("Connection"), ","), ","), func(token string) bool {
		return strings.EqualFold(strings.TrimSpace(token), "upgrade")
	})
	if err != nil || len(key) != 16 || r.Header.Get("Sec-WebSocket-Version") != "13" || !upgrades || !r.ProtoAtLeast(1, 1) {
		return badRequest("this is no WebSocket handshake of version 13; nothing was started")
	}
	return nil
}

func sendControl(ctx context.Context, conn *websocket.Conn, m any) bool {
	data, err := json.Marshal(m)
	return err == nil && conn.Write(ctx, websocket.MessageText, data) == nil
}

// parseDuration reads a Go duration or a bare number of seconds; not below zero.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, bare := strconv.Atoi(text); bare == nil {
		d, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration such as 10s", text)
	}
	return d, nil
}

// maxControl bounds a text message of a socket, in bytes.
const maxControl = 64 << 10
