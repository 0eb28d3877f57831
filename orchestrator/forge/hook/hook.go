// Package hook reads the webhooks of a code host, GitHub or Gitea. [Read] checks the signature of a request and returns a
// [Delivery]: who sent it, and the event in one form for both hosts. The package keeps nothing and decides nothing.
//
// The payload structs have only the members that are used, so a payload with other members is read as well. An event that is
// not used becomes a delivery of the kind [Other]: a receiver acknowledges it, because the host repeats or switches off hooks
// that fail.
//
// A delivery is evidence of its moment. The host may tell another thing later, for example a review's commit after the branch
// was overwritten; an approval therefore binds [Event.Head] of the delivery that brought the review.
package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/spritekit/lattice/spritekit/fault"
)

// MinSecret is the least length of a secret, in bytes. An empty one would let every request in.
const MinSecret = 16

// MaxBody is the largest body that is read, which is GitHub's limit.
const MaxBody = 25 << 20

// Delivery is a request whose signature is right.
type Delivery struct {
	// ID is the host's id of the delivery. A repetition has the same one.
	ID string `json:"id"`
	Event
}

var deliveryID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`) })

// Read reads a delivery. It refuses one that is not signed with one of the secrets; two serve while a secret is replaced.
func Read(r *http.Request, secrets ...string) (Delivery, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" || r.Header.Get("Content-Encoding") != "" {
		return Delivery{}, fault.BadInput("hook_content", "a delivery is JSON").WithHint("set the content type of the webhook to application/json")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	switch {
	case err != nil:
		return Delivery{}, fault.BadInput("hook_content", "the delivery was cut off: %v", err)
	case len(body) > MaxBody:
		return Delivery{}, fault.BadInput("hook_size", "the delivery has more than %d bytes", MaxBody)
	}
	if err := checkSignature(r.Header, body, secrets); err != nil {
		return Delivery{}, err
	}
	d := Delivery{ID: firstHeader(r.Header, "X-GitHub-Delivery", "X-Gitea-Delivery")}
	if !deliveryID().MatchString(d.ID) {
		return Delivery{}, fault.BadInput("hook_content", "the delivery has no id").WithHint("the header X-GitHub-Delivery or X-Gitea-Delivery names it")
	}
	// Gitea names the kind of a review in the second header only.
	kind := firstHeader(r.Header, "X-Gitea-Event-Type", "X-GitHub-Event-Type", "X-GitHub-Event", "X-Gitea-Event")
	d.Event = Parse(kind, body)
	return d, nil
}

// checkSignature compares the signature of a body with the one that each secret makes.
func checkSignature(h http.Header, body []byte, secrets []string) error {
	text, prefixed := strings.CutPrefix(h.Get("X-Hub-Signature-256"), "sha256=")
	if !prefixed {
		text = h.Get("X-Gitea-Signature")
	}
	given, err := hex.DecodeString(text)
	if text == "" || err != nil {
		return fault.Denied("hook_signature", "the delivery is not signed").WithHint("give the webhook the secret of the settings")
	}
	for _, secret := range secrets {
		if len(secret) >= MinSecret && hmac.Equal(given, Sign(secret, body)) {
			return nil
		}
	}
	return fault.Denied("hook_signature", "the signature of the delivery is wrong").WithHint("give the webhook the secret of the settings")
}

// Sign returns the signature of a body: HMAC-SHA256.
func Sign(secret string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}

func firstHeader(h http.Header, names ...string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}
