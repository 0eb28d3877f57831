package govern

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
)

// RecordCalls returns a handler of the Sprites API that records each call before it passes it on.
func (l *Ledger) RecordCalls(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.RecordCall(r)
		next.ServeHTTP(w, r)
	})
}

// RecordCall records a call of the Sprites API. The entry is written behind: a call changes nothing outside of sprites.
func (l *Ledger) RecordCall(r *http.Request) {
	body, err := json.Marshal(callBody{Call: r.Method + " " + clipText(r.URL.Path), Parameters: describeQuery(r.URL.Query())})
	if err != nil {
		return // texts and lists of texts are always encoded
	}
	l.Store.QueueAudit(audit.Entry{At: time.Now(), Kind: audit.Sprite, Subject: subjectOfCall(r.URL.Path), Who: caller.Of(r.Context()), Body: audit.Redact(body)})
}

// RecordRequest records a request to a code host that was answered, without its body.
func (l *Ledger) RecordRequest(host string, r *http.Request, status int) {
	body, err := json.Marshal(callBody{Call: r.Method + " " + clipText(r.URL.Path), Parameters: describeQuery(r.URL.Query()), Status: status})
	if err != nil {
		return // texts and lists of texts are always encoded
	}
	who := PersonOf(r.Context())
	l.Store.QueueAudit(audit.Entry{At: time.Now(), Kind: audit.Request, Subject: "requests:" + host, Who: &who, Body: audit.Redact(body)})
}

// callBody is the body of an entry about a call of the Sprites API or of a code host.
type callBody struct {
	Call       string              `json:"call"`
	Parameters map[string][]string `json:"parameters,omitempty"`
	Status     int                 `json:"status,omitempty"` // of the answer of a code host
}

// subjectOfCall returns the sprite that a call is about, or sprites.
func subjectOfCall(path string) string {
	if rest, ok := strings.CutPrefix(path, "/v1/sprites/"); ok {
		if name, _, _ := strings.Cut(rest, "/"); name != "" {
			return "sprite:" + clipText(name)
		}
	}
	return "sprites"
}

// maxParameter bounds a text of a call, in bytes.
const maxParameter = 256

// describeQuery returns the parameters of a call without credentials: of variables only the names, of a command only the
// program.
func describeQuery(query url.Values) map[string][]string {
	out := map[string][]string{}
	for name, values := range query {
		switch name {
		case "env":
			for _, v := range values {
				variable, _, _ := strings.Cut(v, "=")
				out[name] = append(out[name], clipText(variable))
			}
		case "cmd":
			out[name] = []string{clipText(values[0])}
		default:
			for _, v := range values {
				out[name] = append(out[name], clipText(v))
			}
		}
	}
	return out
}

func clipText(text string) string {
	if len(text) <= maxParameter {
		return text
	}
	return strings.ToValidUTF8(text[:maxParameter], "") + "…"
}
