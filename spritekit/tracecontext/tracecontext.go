// Package tracecontext computes the ids of the traces and spans of runs and calls, in the form of W3C Trace Context. They follow
// from the ids of run and call: both ends of a session know them, and a trace can be computed after its run has ended.
package tracecontext

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Parent returns the variable TRACEPARENT of a call. Spans of programs in the sprite belong to the span of the call.
func Parent(run, call string) string { return "00-" + TraceID(run) + "-" + CallSpan(call) + "-01" }

// TraceID returns the id of a run's trace.
func TraceID(run string) string { return Digest(32, "trace", run) }

// CallSpan returns the id of a call's span.
func CallSpan(call string) string { return Digest(16, "call", call) }

// Digest returns the first hexadecimal digits of a digest of texts.
func Digest(digits int, texts ...string) string {
	sum := sha256.Sum256([]byte("lattice/" + strings.Join(texts, "/")))
	return hex.EncodeToString(sum[:])[:digits]
}
