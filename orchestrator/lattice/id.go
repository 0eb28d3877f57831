package lattice

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// CallID derives the id of c from the run's secret, which never enters a sprite: ids cannot be guessed, so results
// cannot be planted ahead (DESIGN 3). The same attempt has the same id whenever it is dispatched.
func CallID(secret []byte, c Call) string {
	m := hmac.New(sha256.New, secret)
	for _, part := range []string{c.RunID, c.Sprite, c.Node, c.Path} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		m.Write(n[:])
		m.Write([]byte(part))
	}
	fmt.Fprintf(m, "%d/%d/%d", c.Epoch, c.Visit, c.Attempt)
	return "call_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(m.Sum(nil)[:20]))
}

// StartKey derives the key under which a run is started once from a text of the caller's. The run's id is run_ and the key.
func StartKey(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// LinkedRun derives the id of the run that goes on where the wait of another one was answered. It has the form of ids
// that are drawn.
func LinkedRun(run, wait string) string {
	sum := sha256.Sum256([]byte(DerivedKey(run, wait, "linked")))
	return "run_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// ForkedRun derives the id of the n-th run that a request to fork starts, from the key of the request.
func ForkedRun(key string, n int) string {
	sum := sha256.Sum256([]byte(DerivedKey(key, fmt.Sprint(n), "fork")))
	return "run_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// StateSum is the digest of a run's encoded state.
func StateSum(state []byte) string {
	sum := sha256.Sum256(state)
	return hex.EncodeToString(sum[:16])
}

// Chain returns the digest of a fact and of all earlier facts of the run, whose digest is before. It covers the fact's content
// and the nodes that it began, but not the driver's clock. It reveals even a change that leads to the same state.
func Chain(before string, fact Entry) string {
	return DerivedKey(before, fact.Type, string(fact.Body), strings.Join(fact.Started, "\n"))
}

// DerivedKey hashes parts to a short hex id. It is how Step makes ids: derived, never drawn.
func DerivedKey(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil)[:10])
}
