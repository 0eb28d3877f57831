package protocol

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol/quote"
)

// Canonical returns raw with sorted keys, without insignificant space, with each string in its shortest form and with
// number literals unchanged. Keys are sorted by their decoded bytes; of duplicate keys the last one is kept. Two texts
// with the same canonical form have the same meaning.
func Canonical(raw json.RawMessage) (json.RawMessage, error) {
	text, _ := toUTF8(raw)
	value, err := compactJSON(text)
	if err != nil {
		return nil, fmt.Errorf("canonical form: no JSON: %w", err)
	}
	return appendCanonical(nil, value), nil
}

func appendCanonical(out, value []byte) []byte {
	switch value[0] {
	case '"':
		return appendCanonicalString(out, value)
	case '[':
		out = append(out, '[')
		for i, e := range splitArray(value) {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendCanonical(out, e)
		}
		return append(out, ']')
	case '{':
		out = append(out, '{')
		for i, m := range sortedMembers(value) {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendCanonicalString(out, m.key), ':')
			out = appendCanonical(out, m.value)
		}
		return append(out, '}')
	}
	return append(out, value...)
}

func sortedMembers(object []byte) []member {
	ms := splitObject(object, make([]member, 0, 8))
	slices.SortStableFunc(ms, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	kept := ms[:0]
	for i, m := range ms {
		if i+1 == len(ms) || ms[i+1].name != m.name {
			kept = append(kept, m)
		}
	}
	return kept
}

// appendCanonicalString appends a quoted string in its shortest form. An unpaired surrogate keeps its escape, so that
// strings that differ only in it remain different.
func appendCanonicalString(out, quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return append(out, quoted...)
	}
	for i := 0; i < len(quoted); {
		if quoted[i] != '\\' {
			out = append(out, quoted[i])
			i++
			continue
		}
		r, n := quote.DecodeEscape(quoted[i:])
		i += n
		switch {
		case 0xD800 <= r && r < 0xE000:
			out = append(out, '\\', 'u')
			out = strconv.AppendInt(out, int64(r), 16)
		case r < ' ' || r == '"' || r == '\\':
			out = quote.AppendEscape(out, byte(r))
		default:
			out = append(out, string(r)...)
		}
	}
	return out
}

// DedupeKey identifies e within its sprite: its event_id, else (event_type, instant, hash of the canonical payload).
// Equal events without an event_id have equal keys; readers count them as a multiset.
func DedupeKey(e Event) string {
	if e.EventID != "" {
		return "id:" + e.EventID
	}
	instant := e.Timestamp
	if t, err := ParseTime(e.Timestamp); err == nil {
		instant = t.Format(time.RFC3339Nano)
	}
	payload, err := Canonical(e.Payload)
	if err != nil {
		payload = e.Payload // the event was not decoded: any stable text will do
	}
	return "content:" + hashParts([]byte(e.Type), []byte(instant), payload)
}

// hashParts returns the SHA-256 of parts in hex. Each part is delimited, so that different parts have different hashes.
func hashParts(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Fingerprint identifies the content of a proposal: the hex SHA-256 of the canonical form of {phase, exit_code,
// adjustment_type, adjustment_details}. Time, confidence, evidence and scope are left out.
func (p EnvironmentProposal) Fingerprint() string {
	details, err := Canonical(p.SuggestedAdjustment.Details)
	if err != nil {
		details = json.RawMessage("null")
	}
	var w objectWriter
	w.addMember("adjustment_details", details)
	w.addMember("adjustment_type", quote.Append(nil, []byte(p.SuggestedAdjustment.Type)))
	w.addMember("exit_code", strconv.AppendInt(nil, int64(p.ObservedFailure.ExitCode), 10))
	w.addMember("phase", quote.Append(nil, []byte(p.ObservedFailure.Phase)))
	return sha256Hex(w.bytes())
}

// PayloadDigest returns the hex SHA-256 of the canonical form (sorted keys, number literals untouched) of work_item_id,
// checkpoint_id, inputs and context of r: the key that identifies duplicate resumes. Absent inputs count as {}.
func (r Resume) PayloadDigest() (string, error) {
	if len(r.Inputs) == 0 || isNull(r.Inputs) {
		r.Inputs = json.RawMessage("{}")
	}
	raw, err := marshal(r)
	if err != nil {
		return "", fmt.Errorf("digest of a resume: %w", err)
	}
	canonical, err := Canonical(raw)
	if err != nil {
		return "", fmt.Errorf("digest of a resume: %w", err)
	}
	return sha256Hex(canonical), nil
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
