package govern

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
)

// RecordWrites returns a handler of the interface that records each request which may change something, before its answer leaves:
// one that was refused durably, one that was accepted with the entries and facts that follow.
func (l *Ledger) RecordWrites(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !MayWrite(r) {
			next.ServeHTTP(w, r)
			return
		}
		held := &heldRefusal{ResponseWriter: w, accept: sync.OnceFunc(func() { _ = l.RecordWrite(r, 0, "") })} // no body fails to be encoded
		next.ServeHTTP(held, r)
		if held.status == 0 {
			held.accept()
			return
		}
		var problem struct {
			Error struct {
				Code string `json:"code"`
			} `json:"error"`
		}
		if json.Unmarshal(held.body.Bytes(), &problem) != nil {
			problem.Error.Code = "" // the answer is no problem, and has no code
		}
		// A leader that cannot record a refusal any more ends, and the refusal says so better than the failure to record it.
		_ = l.RecordWrite(r, held.status, problem.Error.Code)
		held.sendRefusal()
	})
}

// RecordWrite records a request that may change something, with the status and the code of its refusal; 0 is accepted.
func (l *Ledger) RecordWrite(r *http.Request, status int, code string) error {
	body := writeBody{Call: r.Method + " " + clipText(r.URL.Path), Status: status, Code: code}
	if status != 0 {
		return l.Record(r.Context(), audit.Write, "interface", "", body)
	}
	raw, err := json.Marshal(body)
	if err == nil {
		l.Store.QueueAudit(audit.Entry{At: time.Now(), Kind: audit.Write, Subject: "interface", Who: caller.Of(r.Context()), Body: raw})
	}
	return err
}

// writeBody is the body of an entry about a request that may change something.
type writeBody struct {
	Call   string `json:"call"`
	Status int    `json:"status,omitempty"` // of a refusal
	Code   string `json:"code,omitempty"`
}

// MayWrite reports whether a request of the interface may change something. A hand-over changes who leads, and nothing stored; a
// check of a text and a replay change nothing.
func MayWrite(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, api.Root+"/")
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	return ok && !read && rest != "lattice/handover" && rest != "flows/check" && !strings.HasSuffix(rest, "/replay")
}

// heldRefusal keeps a refusal until it is recorded, and passes on everything else after accept.
type heldRefusal struct {
	http.ResponseWriter
	accept func() // called before any other answer begins, which may be a stream
	status int    // of the refusal
	body   bytes.Buffer
}

func (h *heldRefusal) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		h.status = status
		return
	}
	h.accept()
	h.ResponseWriter.WriteHeader(status)
}

func (h *heldRefusal) Write(data []byte) (int, error) {
	if h.status != 0 {
		return h.body.Write(data)
	}
	h.accept()
	return h.ResponseWriter.Write(data)
}

// FlushError implements the flushing of [http.ResponseController].
func (h *heldRefusal) FlushError() error {
	if h.status != 0 {
		return nil
	}
	h.accept()
	return http.NewResponseController(h.ResponseWriter).Flush()
}

// Unwrap lets [http.ResponseController] reach the connection.
func (h *heldRefusal) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// sendRefusal sends a refusal that was kept.
func (h *heldRefusal) sendRefusal() {
	if h.status != 0 {
		h.ResponseWriter.WriteHeader(h.status)
		_, _ = io.Copy(h.ResponseWriter, &h.body) // the client sees a cut body
	}
}
