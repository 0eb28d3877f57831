package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

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
		return &apiError{http.StatusInternalServerError, sprites.CodeDamaged, err.Error()}
	case errors.Is(err, errNoSprite):
		return &apiError{http.StatusNotFound, errNoSprite.Error(), ""}
	case errors.Is(err, errNoCheckpoint):
		return &apiError{http.StatusNotFound, errNoCheckpoint.Error(), ""}
	case errors.Is(err, errNameTaken):
		return &apiError{http.StatusConflict, "name_conflict", err.Error()}
	case errors.As(err, &degraded):
		return &apiError{http.StatusConflict, "degraded", err.Error()}
	case errors.Is(err, sandbox.ErrDied): // first, because the cause of that end may be any of the next ones
		return &apiError{http.StatusBadGateway, sprites.CodeSandboxDied, err.Error() + "; whether the command began is not known"}
	case sandbox.Short(err): // which ENOSPC also is where it is of namespaces
		return &apiError{http.StatusServiceUnavailable, sprites.CodeShortage, err.Error() + "; try again in a moment"}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &apiError{http.StatusInsufficientStorage, "disk_full", "the disk that holds the sprites is full; nothing was changed, free some space and try again"}
	case errors.Is(err, errHostClosed), errors.Is(err, errClosed), errors.Is(err, context.Canceled):
		return unavailable
	}
	return &apiError{http.StatusInternalServerError, "internal", err.Error()}
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
		return &apiError{http.StatusRequestEntityTooLarge, "too_large", "the request body is larger than 1 MiB"}
	}
	return badRequest("the request body is not the JSON that was expected: " + err.Error())
}

func badRequest(message string) *apiError {
	return &apiError{http.StatusBadRequest, "bad_request", message}
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
