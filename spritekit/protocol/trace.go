package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// TraceParent returns the variable TRACEPARENT of a call, in the form of Trace Context: spans of programs in the sprite belong to
// the call's. The ids follow from those of run and call: both ends of a session know them, and a trace is computed when the run has
// ended.
func TraceParent(run, call string) string { return "00-" + TraceID(run) + "-" + CallSpan(call) + "-01" }

// TraceID returns the id of a run's trace.
func TraceID(run string) string { return TraceDigest(32, "trace", run) }

// CallSpan returns the id of a call's span.
func CallSpan(call string) string { return TraceDigest(16, "call", call) }

// TraceDigest returns the first hexadecimal digits of a digest of texts.
func TraceDigest(digits int, texts ...string) string {
	sum := sha256.Sum256([]byte("lattice/" + strings.Join(texts, "/")))
	return hex.EncodeToString(sum[:])[:digits]
}
