// Package exchange reads the requests of the interface and writes its answers: JSON, lines of JSON, and problems. Start with
// Read and Reply. It knows no route, and never shows an error without a code.
package exchange

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/exact"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Media types of answers.
const (
	MediaJSON  = "application/json"
	MediaLines = "application/x-ndjson"
)

// MaxBody bounds the bodies of requests, in bytes: a flow of 1 MiB with its input.
const MaxBody = 8 << 20

// Read decodes the body strictly into v and answers for itself when that fails.
func Read(w http.ResponseWriter, r *http.Request, v any) bool { return Decode(w, r, v, true) }

// Decode decodes the body into v, strictly if unknown members are to be refused. It refuses null, which would be every
// request with all that it leaves out. No body is an empty object.
func Decode(w http.ResponseWriter, r *http.Request, v any, strict bool) bool {
	var body json.RawMessage
	if !DecodeUpTo(w, r, &body, MaxBody) {
		return false
	}
	if len(body) == 0 {
		return true
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if strict {
		dec.DisallowUnknownFields()
	}
	err := dec.Decode(v)
	if string(body) == "null" {
		err = errors.New("it is null")
	}
	if err == nil && strict {
		err = checkMembers(body, reflect.TypeOf(v).Elem())
	}
	if err != nil {
		Fail(w, fault.BadInput("bad_request", "read request: %s", describeMistake(err)))
	}
	return err == nil
}

// checkMembers refuses bodies that two readers of JSON may understand differently: text that is not UTF-8, an object with duplicate
// keys, and a member that differs from one of t only by case. The compiler reports duplicate keys of a flow, with their places.
func checkMembers(body []byte, t reflect.Type) error {
	if !utf8.Valid(body) {
		return errors.New("it is not UTF-8")
	}
	for _, at := range exact.Duplicates(body) {
		if !strings.HasPrefix(at, "/flow/") {
			return fmt.Errorf("%s is given twice", at)
		}
	}
	if at := exact.Unknown(body, t); at != "" {
		return fmt.Errorf("unknown field %s", at)
	}
	return nil
}

// describeMistake describes the first error of a body, without the names of Go.
func describeMistake(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s cannot be a JSON %s", cmp.Or(wrong.Field, "it"), wrong.Value)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// DecodeUpTo decodes a body of at most limit bytes into v, and answers for itself when that fails.
func DecodeUpTo(w http.ResponseWriter, r *http.Request, v any, limit int64) bool {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	err := dec.Decode(v)
	if err == nil {
		if _, err = dec.Token(); err == nil {
			err = errors.New("something follows the JSON value")
		}
	}
	if errors.Is(err, io.EOF) {
		return true
	}
	p, status := fault.BadInput("bad_request", "read request: %s", describeMistake(err)), http.StatusBadRequest
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		status = http.StatusRequestEntityTooLarge
	}
	WriteProblem(w, status, p)
	return false
}

// Reply answers with v as JSON, or with the problem err.
func Reply(w http.ResponseWriter, v any, err error) {
	if err != nil {
		Fail(w, err)
		return
	}
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice && list.IsNil() {
		v = []struct{}{} // an empty list is not null
	}
	w.Header().Set("Content-Type", MediaJSON)
	_ = json.NewEncoder(w).Encode(v) // the client sees a cut body
}

// Stream answers with NDJSON, with as many lines as is usual unless the request has another limit; 0 is all. An error after the first
// line ends the stream with a problem line.
func Stream(w http.ResponseWriter, r *http.Request, usual int, produce func(lattice.Seq, func(any) error) error) {
	after, err := strconv.ParseUint("0"+r.FormValue("after"), 10, 63)
	if err != nil {
		Fail(w, fault.BadInput("bad_request", "after must be a sequence number"))
		return
	}
	limit, err := limitOf(r, usual)
	if err != nil {
		Fail(w, err)
		return
	}
	enc, lines := json.NewEncoder(w), 0
	flush := http.NewResponseController(w)
	err = produce(lattice.Seq(after), func(v any) error {
		if lines++; lines == 1 {
			w.Header().Set("Content-Type", MediaLines)
		}
		if err := enc.Encode(v); err != nil {
			return err
		}
		if err := flush.Flush(); err != nil {
			return err
		}
		if lines == limit {
			return errLimit
		}
		return nil
	})
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errLimit):
	case lines > 0:
		_ = enc.Encode(AsFault(err))
	default:
		Fail(w, err)
	}
}

// errLimit ends a stream that has as many lines as were asked for.
var errLimit = errors.New("limit reached")

// AsFault returns the error that a person sees, with its code and its remedy: the [fault.Error] of err, or an internal
// one. Its exit code is never 0.
func AsFault(err error) *fault.Error {
	if p := fault.As(err); p != nil {
		return &fault.Error{Fault: p.Fault, Exit: cmp.Or(p.Exit, protocol.ExitFailed)}
	}
	if refused, ok := errors.AsType[*lattice.Refusal](err); ok {
		return &fault.Error{Fault: refused.Fault, Exit: protocol.ExitFailed}
	}
	var advised interface {
		error
		Advice() (exit int, code, hint string) // errors of a store
	}
	if errors.As(err, &advised) {
		exit, code, hint := advised.Advice()
		return fault.New(exit, code, "%v", err).WithHint("%s", hint)
	}
	return fault.Internal("internal", "%v", err)
}

var httpStatus = map[int]int{
	protocol.ExitBadInput: http.StatusBadRequest, protocol.ExitNotFound: http.StatusNotFound,
	protocol.ExitDenied: http.StatusForbidden, protocol.ExitBusy: http.StatusConflict,
	protocol.ExitFailed: http.StatusUnprocessableEntity, protocol.ExitUnsupported: http.StatusNotImplemented,
	protocol.ExitLimit: http.StatusInsufficientStorage, protocol.ExitWaiting: http.StatusAccepted, // recorded; other people must act as well
}

// statusOfCode holds the codes whose status says more than their exit code: values that are well-formed and do not fit the
// question, and a question that is not open any more.
var statusOfCode = map[string]int{"bad_answer": http.StatusUnprocessableEntity, "answer_needed": http.StatusUnprocessableEntity,
	"answer_too_large": http.StatusUnprocessableEntity, "not_waiting": http.StatusConflict}

// StatusOf returns the status of HTTP for an error.
func StatusOf(p *fault.Error) int {
	if status, ok := statusOfCode[p.Code]; ok {
		return status
	}
	if status, ok := httpStatus[p.Exit]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// Problem is the body of an answer without a result, as RFC 9457 has it: the error, and the status of HTTP.
type Problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	*fault.Error
}

// WriteProblem answers with an error and a status of HTTP.
func WriteProblem(w http.ResponseWriter, status int, p *fault.Error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Problem{status, http.StatusText(status), p})
}

// Fail answers with a problem.
func Fail(w http.ResponseWriter, err error) {
	p := AsFault(err)
	WriteProblem(w, StatusOf(p), p)
}

// limitOf returns the parameter limit of a request, or the usual one if there is none.
func limitOf(r *http.Request, usual int) (int, error) {
	limit, err := strconv.Atoi(cmp.Or(r.FormValue("limit"), strconv.Itoa(usual)))
	if err != nil || limit < 0 {
		return 0, fault.BadInput("bad_request", "the limit of a list is a number, not %q", r.FormValue("limit"))
	}
	return limit, nil
}

// Line is one line of an answer that takes long: progress, at last the result.
type Line[P, T any] struct {
	Progress *P `json:"progress,omitempty"`
	Result   *T `json:"result,omitempty"`
}

// SendLines answers with the progress of a work as NDJSON, and with its result or a problem as the last line.
func SendLines[P, T any](w http.ResponseWriter, r *http.Request, work func(context.Context, func(P)) (T, error)) {
	w.Header().Set("Content-Type", MediaLines)
	enc, flush := json.NewEncoder(w), http.NewResponseController(w)
	out, err := work(r.Context(), func(p P) {
		_ = enc.Encode(Line[P, T]{Progress: &p}) // a client that is gone ends the context
		_ = flush.Flush()
	})
	if err != nil {
		_ = enc.Encode(AsFault(err))
		return
	}
	_ = enc.Encode(Line[P, T]{Result: &out})
}

// Digest returns a digest of v as JSON.
func Digest(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "" // what was decoded can be encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
