package llm

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// at is a client whose class SMALL is what answers at a URL, in one dialect, on a clock of its own.
func at(t *testing.T, p Provider, base string, transport *http.Transport) *Client {
	t.Helper()
	transport.DisableKeepAlives = true
	t.Cleanup(transport.CloseIdleConnections)
	tick := &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	c, err := New(Options{Transport: transport, Now: tick.Now, Sleep: tick.Sleep, Classes: []Class{{
		Name: "SMALL", Provider: p, Model: "m", BaseURL: base, Key: func() (string, error) { return canary, nil }, KeyFrom: "SOME_KEY",
		InputUSD: price(1), OutputUSD: price(10),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// says asks a server that answers every request with h.
func says(t *testing.T, p Provider, h http.HandlerFunc) lattice.ModelReply {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return ask(t, at(t, p, s.URL, &http.Transport{}), question())
}

// body answers with a body of some type.
func body(kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text) // the client may have gone
	}
}

// chatText is a whole chat completion that says text.
func chatText(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return `{"choices":[{"message":{"content":` + string(quoted) + `},"finish_reason":"stop"}]}`
}

const (
	chatStream    = "data: {\"choices\":[{\"delta\":{\"content\":\"{}\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	messageStream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"type\":\"message\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"{}\"}}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// What an answer is shows in its bytes. Servers that frame or label it oddly are understood.
func TestOddlyFramedAnswers(t *testing.T) {
	streams := map[Provider]string{OpenAI: chatStream, Anthropic: messageStream}
	wholes := map[Provider]string{OpenAI: chatText("{}"), Anthropic: `{"type":"message","content":[{"type":"text","text":"{}"}],"stop_reason":"end_turn"}`}
	tests := map[string]func(p Provider) http.HandlerFunc{
		"a stream that says it is text": func(p Provider) http.HandlerFunc { return body("text/plain", streams[p]) },
		"a stream that says it is JSON": func(p Provider) http.HandlerFunc { return body("application/json", streams[p]) },
		"JSON that says it is a stream": func(p Provider) http.HandlerFunc { return body("text/event-stream", wholes[p]) },
		"JSON that says it is HTML":     func(p Provider) http.HandlerFunc { return body("text/html", wholes[p]) },
		"JSON behind white space":       func(p Provider) http.HandlerFunc { return body("", "\r\n\n  "+wholes[p]) },
		"a stream with CRLF": func(p Provider) http.HandlerFunc {
			return body("text/event-stream", strings.ReplaceAll(streams[p], "\n", "\r\n"))
		},
		"a stream behind comments": func(p Provider) http.HandlerFunc {
			return body("text/event-stream", ": hello\n\n:\n\nretry: 10\n\n"+streams[p])
		},
		"a stream behind a byte order mark": func(p Provider) http.HandlerFunc { return body("text/event-stream", "\ufeff"+streams[p]) },
		"compressed": func(p Provider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, streams[p])
				_ = z.Close()
			}
		},
		"HTTP/1.0": func(p Provider) http.HandlerFunc {
			return hijack("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + streams[p])
		},
	}
	for name, h := range tests {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p Provider) {
				if got := says(t, p, h(p)); got.Kind != "" || got.Text != "{}" || !got.Usage.Estimated {
					t.Errorf("reply = %+v, want the text {}, its tokens estimated", got)
				}
			})
		})
	}
}

// hijack answers with bytes of its own and closes.
func hijack(raw string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, raw)
	}
}

// endless writes text again and again until the client goes.
func endless(kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		chunk := []byte(strings.Repeat(text, 1+(64<<10)/len(text)))
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
}

// Answers of hostile servers end, in bounded memory, as failures that say what came.
func TestHostileAnswers(t *testing.T) {
	tests := map[string]struct {
		h          http.HandlerFunc
		kind, code string
		says       string
	}{
		"JSON without end":     {endless("application/json", `{"choices":[`), expr.FailProvider, lattice.ModelGarbage, "the response is too long"},
		"spaces without end":   {endless("application/json", " "), expr.FailProvider, lattice.ModelGarbage, "the response is too long"},
		"comments without end": {endless("text/event-stream", ": keep-alive\n\n"), expr.FailProvider, lattice.ModelGarbage, "the response is too long"},
		"one event, no end":    {endless("text/event-stream", "data: "), expr.FailProvider, lattice.ModelGarbage, "the response is too long"},
		"a bomb":               {bomb, expr.FailProvider, lattice.ModelGarbage, "the response is too long"},
		"HTML":                 {body("text/html", "<html>\x1b[2J log in first"), expr.FailProvider, lattice.ModelGarbage, "log in first"},
		"nothing":              {body("application/json", ""), expr.FailProvider, lattice.ModelUnreachable, "it is empty"},
		"an array":             {body("application/json", "[]"), expr.FailProvider, lattice.ModelGarbage, "not a response of this provider"},
		"null":                 {body("application/json", "null"), expr.FailProvider, lattice.ModelGarbage, "not a response of this provider"},
		"an empty object":      {body("application/json", "{}"), expr.FailProvider, lattice.ModelGarbage, "not a response of this provider"},
		"cut in a chunk":       {hijack("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\ndata: {\"choi"), expr.FailProvider, lattice.ModelUnreachable, "unexpected EOF"},
		"shorter than it said": {hijack("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{\"choices\""), expr.FailProvider, lattice.ModelUnreachable, "unexpected EOF"},
		"no status line":       {hijack("SSH-2.0-OpenSSH_9.2\r\n"), expr.FailProvider, lattice.ModelUnreachable, "malformed HTTP"},
		"headers without end":  {headers, expr.FailProvider, lattice.ModelUnreachable, "headers"},
		"an error with 200":    {body("application/json", `{"type":"error","error":{"message":"overloaded"}}`), expr.FailProvider, lattice.ModelUnreachable, "overloaded"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p Provider) {
				s := httptest.NewServer(tt.h)
				t.Cleanup(s.Close)
				got := ask(t, at(t, p, s.URL, &http.Transport{MaxResponseHeaderBytes: 64 << 10}), question())
				if got.Kind != tt.kind || got.Code != tt.code || !strings.Contains(got.Message, tt.says) {
					t.Errorf("reply = %s %s %q, want %s %s and %q", got.Kind, got.Code, got.Message, tt.kind, tt.code, tt.says)
				}
				if len(got.Message) > 2500 {
					t.Errorf("the message has %d bytes", len(got.Message))
				}
			})
		})
	}
}

// bomb is a gigabyte of spaces in a megabyte.
func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	for spaces := bytes.Repeat([]byte(" "), 1<<20); ; {
		if _, err := z.Write(spaces); err != nil {
			return
		}
	}
}

// headers sends headers until the client goes.
func headers(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
	for i := 0; ; i++ {
		if _, err := fmt.Fprintf(conn, "X-%d: %s\r\n", i, strings.Repeat("x", 1000)); err != nil {
			return
		}
	}
}

// What a model says comes through as text that JSON can hold, whatever bytes it is made of.
func TestTextOfAnyBytes(t *testing.T) {
	for name, tt := range map[string]struct{ raw, want string }{
		"bad UTF-8":      {"{\"choices\":[{\"message\":{\"content\":\"a\xff\xc3b\"},\"finish_reason\":\"stop\"}]}", "a\ufffd\ufffdb"},
		"NUL":            {chatText("a\x00b"), "a\x00b"},
		"lone surrogate": {`{"choices":[{"message":{"content":"\ud800x"},"finish_reason":"stop"}]}`, "\ufffdx"},
		"parts":          {`{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"image","text":"no"},{"type":"text","text":"b"}]},"finish_reason":"stop"}]}`, "ab"},
		"null":           {`{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}`, ""},
		"a number":       {`{"choices":[{"message":{"content":7},"finish_reason":"stop"}]}`, ""},
		"more choices":   {`{"choices":[{"message":{"content":"first"},"finish_reason":"stop"},{"message":{"content":"second"},"finish_reason":"stop"}]}`, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := says(t, OpenAI, body("application/json", tt.raw)); got.Kind != "" || got.Text != tt.want {
				t.Errorf("reply = %+v, want the text %q", got, tt.want)
			}
		})
	}
}

// A model that calls a tool has not answered; that is told to it, as other mistakes are.
func TestAToolCallIsNoAnswer(t *testing.T) {
	for p, raw := range map[Provider]string{
		OpenAI:    `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1"}]},"finish_reason":"tool_calls"}]}`,
		Anthropic: `{"type":"message","content":[{"type":"tool_use","name":"x","input":{}}],"stop_reason":"tool_use"}`,
	} {
		if got := says(t, p, body("application/json", raw)); got.Kind != expr.FailParse || !strings.Contains(got.Message, "called a tool") {
			t.Errorf("%s: reply = %+v", p, got)
		}
	}
}

// Counts that cannot be are not believed, and cost nothing but an estimate.
func TestUsageThatCannotBe(t *testing.T) {
	for _, usage := range []string{
		`null`, `"none"`, `[]`, `{}`, `{"prompt_tokens":-5,"completion_tokens":3}`, `{"prompt_tokens":5,"completion_tokens":-3}`,
		`{"prompt_tokens":1e300,"completion_tokens":1}`, `{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}`,
		`{"prompt_tokens":"12","completion_tokens":{}}`, `{"prompt_tokens":0,"completion_tokens":0}`,
	} {
		got := says(t, OpenAI, body("application/json", `{"usage":`+usage+`,`+chatText("{}")[1:]))
		if u := got.Usage; got.Text != "{}" || u.InputTokens != 4 || u.OutputTokens != 1 || !u.Estimated {
			t.Errorf("usage %s: reply = %+v, want 4 and 1 tokens, estimated", usage, got)
		}
	}
	got := says(t, OpenAI, body("application/json", `{"usage":{"prompt_tokens":12.0,"completion_tokens":3e0},`+chatText("{}")[1:]))
	if got.Usage.InputTokens != 12 || got.Usage.OutputTokens != 3 || got.Usage.Estimated {
		t.Errorf("usage = %+v, want 12 and 3", got.Usage)
	}
}

// Counts that are null are none: providers say so of caches that were not used.
func TestUsageThatIsNull(t *testing.T) {
	got := says(t, Anthropic, body("application/json", `{"type":"message","model":"m","content":[{"type":"text","text":"{}"}],"stop_reason":"end_turn",
		"usage":{"input_tokens":12,"cache_creation_input_tokens":null,"cache_read_input_tokens":null,"output_tokens":3}}`))
	if u := got.Usage; got.Text != "{}" || u.InputTokens != 12 || u.OutputTokens != 3 || u.Estimated {
		t.Errorf("reply = %+v, want 12 and 3 tokens", got)
	}
}

// A redirect is not followed: the server that it leads to sees neither key nor prompt.
func TestRedirectsLeadNowhere(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		each(t, func(t *testing.T, p Provider) {
			got := says(t, p, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, status) })
			if got.Code != lattice.ModelRefused || !strings.Contains(got.Message, "redirects are not followed") || !strings.Contains(got.Hint, "base_url of [models.SMALL]") {
				t.Errorf("%d: reply = %+v", status, got)
			}
		})
	}
	if asked != 0 {
		t.Errorf("the other server was asked %d times", asked)
	}
}

// A server that sends a byte now and then does not hold a run for longer than the question may take.
func TestAServerThatDrips(t *testing.T) {
	each(t, func(t *testing.T, p Provider) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, ":\n")
				w.(http.Flusher).Flush()
				select {
				case <-time.After(time.Millisecond):
				case <-r.Context().Done():
				}
			}
		}))
		t.Cleanup(s.Close)
		q := question()
		q.TimeoutS = 0.1
		got := ask(t, at(t, p, s.URL, &http.Transport{}), q)
		if got.Kind != expr.FailTimeout || got.Code != lattice.ModelTimeout || !strings.Contains(got.Hint, "timeout of [models.SMALL]") {
			t.Errorf("reply = %+v", got)
		}
	})
}

// Each way in which there is no connection says what it is and which setting or variable to look at.
func TestNoConnection(t *testing.T) {
	refusing := httptest.NewServer(nil)
	refusing.Close()
	secure := httptest.NewUnstartedServer(body("", ""))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(body("", ""))
	t.Cleanup(plain.Close)
	proxy, err := url.Parse(refusing.URL)
	if err != nil {
		t.Fatal(err)
	}
	unknown := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "models.invalid", IsNotFound: true}
	}}
	for name, tt := range map[string]struct {
		base       string
		transport  *http.Transport
		says, hint string
	}{
		"refused":         {refusing.URL, &http.Transport{}, "connection refused", "nothing listens there: start the server, or correct base_url of [models.SMALL]"},
		"unknown host":    {"http://models.invalid", unknown, "no such host", "the host models.invalid is unknown: correct base_url of [models.SMALL]"},
		"unknown signer":  {secure.URL, &http.Transport{}, "certificate", "SSL_CERT_FILE"},
		"another's":       {strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), &http.Transport{TLSClientConfig: trusting(secure)}, "certificate", "not valid for this address"},
		"no TLS":          {strings.Replace(plain.URL, "http:", "https:", 1), &http.Transport{}, "HTTP response to HTTPS client", "write http:// in base_url of [models.SMALL]"},
		"a proxy is down": {"https://models.invalid", &http.Transport{Proxy: http.ProxyURL(proxy)}, "proxyconnect", "HTTPS_PROXY"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, at(t, OpenAI, tt.base, tt.transport), question())
			if got.Kind != expr.FailProvider || got.Code != lattice.ModelUnreachable || !strings.Contains(got.Message, tt.says) || !strings.Contains(got.Hint, tt.hint) {
				t.Errorf("reply = %s %s %q %q, want %q and %q", got.Kind, got.Code, got.Message, got.Hint, tt.says, tt.hint)
			}
		})
	}
}

// trusting is a configuration that trusts the server, whose certificate is not for localhost.
func trusting(s *httptest.Server) *tls.Config {
	return s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
}

// What a status means to a person.
func TestStatuses(t *testing.T) {
	for status, want := range map[int]struct{ kind, code, hint string }{
		401: {expr.FailProvider, lattice.ModelDenied, "SOME_KEY, as set in [models.SMALL]"},
		403: {expr.FailProvider, lattice.ModelDenied, "SOME_KEY, as set in [models.SMALL]"},
		407: {expr.FailProvider, lattice.ModelDenied, "HTTP_PROXY"},
		404: {expr.FailProvider, lattice.ModelNotFound, "model or base_url of [models.SMALL]"},
		400: {expr.FailProvider, lattice.ModelRefused, ""},
		422: {expr.FailProvider, lattice.ModelRefused, ""},
		429: {expr.FailRateLimited, lattice.ModelRateLimited, "requests_per_minute of [llm]"},
		408: {expr.FailProvider, lattice.ModelUnreachable, "later"},
		500: {expr.FailProvider, lattice.ModelUnreachable, "later"},
		529: {expr.FailProvider, lattice.ModelUnreachable, "later"},
	} {
		got := says(t, OpenAI, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", status) })
		if got.Kind != want.kind || got.Code != want.code || !strings.Contains(got.Hint, want.hint) {
			t.Errorf("%d: reply = %+v, want %+v", status, got, want)
		}
	}
}

// Rests that a provider asks for do not turn its limit into a timeout.
func TestARateLimitThatOutlastsTheQuestion(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(s.Close)
	c := at(t, OpenAI, s.URL, &http.Transport{})
	c.sleep = sleepContext
	q := question()
	q.TimeoutS = 0.05
	if got := ask(t, c, q); got.Kind != expr.FailRateLimited || got.Code != lattice.ModelRateLimited || !strings.Contains(got.Message, "429") {
		t.Errorf("reply = %+v", got)
	}
}

// However a server writes the key, and wherever a message is cut, no part of it leaves the client.
func TestNoPartOfTheKeyIsLeft(t *testing.T) {
	for cut := 440; cut < 520; cut += 3 {
		pad := strings.Repeat("é", cut)
		for _, h := range []http.HandlerFunc{
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, pad+canary, 400) },
			body("text/html", pad+canary),
			body("application/json", `{"error":{"message":"`+pad+canary+`"}}`),
		} {
			if got := says(t, OpenAI, h); strings.Contains(got.Message, canary[:9]) {
				t.Fatalf("behind %d characters: %q", cut, got.Message)
			}
		}
	}
	odd := `odd/key+with"signs é 0123456789`
	for _, form := range []string{odd, url.QueryEscape(odd), url.PathEscape(odd), strings.ReplaceAll(odd, `"`, `\"`), "b2RkL2tleSt3aXRoInNpZ25zIMOpIDAxMjM0NTY3ODk="} {
		if got := redactKey("<"+form+">", odd); !strings.HasPrefix(got, "<"+Redacted) {
			t.Errorf("redact(%q) = %q", form, got)
		}
	}
}

// A word that stands for no key, and words that look like one, stay in answers as they are.
func TestAnswersKeepTheirWords(t *testing.T) {
	if got := redactKey("none of the key-value-stores", "none"); got != "none of the key-value-stores" {
		t.Errorf("redact = %q", got)
	}
	if got := says(t, OpenAI, body("", chatText(`{"name":"key-management-1234"}`))); got.Text != `{"name":"key-management-1234"}` {
		t.Errorf("reply = %+v", got)
	}
}
