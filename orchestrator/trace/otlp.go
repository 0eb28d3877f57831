package trace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/spritekit/fault"
)

// The messages of OTLP in their JSON form: ids in hexadecimal digits, 64-bit numbers as strings.
type (
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		Attributes []keyValue `json:"attributes"`
	}
	span struct {
		TraceID      string     `json:"traceId"`
		SpanID       string     `json:"spanId"`
		ParentSpanID string     `json:"parentSpanId,omitempty"`
		Name         string     `json:"name"`
		Kind         Kind       `json:"kind"`
		Start        string     `json:"startTimeUnixNano"`
		End          string     `json:"endTimeUnixNano"`
		Attributes   []keyValue `json:"attributes,omitempty"`
		Links        []link     `json:"links,omitempty"`
		Status       status     `json:"status"`
	}
	link struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	status struct {
		Code int `json:"code,omitempty"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String *string `json:"stringValue,omitempty"`
		Int    string  `json:"intValue,omitempty"`
		Bool   *bool   `json:"boolValue,omitempty"`
	}
)

const (
	statusError = 2
	// genAI is the version of the semantic conventions for generative AI that the attributes follow.
	genAI = "0.1.0"
)

// Encode returns spans as the body of a request to export traces, which is also a line of a file of traces. service is the name of
// the service, version that of this build.
func Encode(spans []Span, service, version string) ([]byte, error) {
	out := make([]span, 0, len(spans))
	for _, s := range spans {
		o := span{TraceID: s.Trace, SpanID: s.ID, ParentSpanID: s.Parent, Name: s.Name, Kind: max(s.Kind, Internal), Start: formatTime(s.Began), End: formatTime(s.Ended), Attributes: encodeAll(s.Attributes)}
		if s.Failed {
			o.Status.Code = statusError
		}
		for _, l := range s.Links {
			o.Links = append(o.Links, link{l.Trace, l.Span})
		}
		out = append(out, o)
	}
	return json.Marshal(map[string]any{"resourceSpans": []resourceSpans{{
		Resource: resource{encodeAll([]Attribute{{"service.name", service}, {"service.version", version}})},
		ScopeSpans: []scopeSpans{{
			Scope: scope{"github.com/spritekit/lattice", version, encodeAll([]Attribute{{"lattice.semconv.gen_ai.version", genAI}})}, Spans: out,
		}},
	}}})
}

func formatTime(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }

func encodeAll(all []Attribute) (out []keyValue) {
	for _, a := range all {
		kv := keyValue{Key: a.Key}
		switch v := a.Value.(type) {
		case int:
			kv.Value.Int = strconv.Itoa(v)
		case bool:
			kv.Value.Bool = &v
		default:
			text := fmt.Sprint(v)
			kv.Value.String = &text
		}
		out = append(out, kv)
	}
	return out
}

// Exporter sends traces to a collector.
type Exporter struct {
	URL     string
	Header  http.Header
	Service string // the name of the service
	Version string // of this build
	Client  *http.Client
}

// Configure returns the exporter that the environment names by the variables of OpenTelemetry, nil if it names none.
func Configure(getenv func(string) string, version string) (*Exporter, error) {
	endpoint := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if base := getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); endpoint == "" && base != "" {
		endpoint = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if endpoint == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	if protocol := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL")); protocol != "" && !strings.HasPrefix(protocol, "http/") {
		return nil, fault.Unsupported("trace_protocol", "traces are sent over HTTP, and OTEL_EXPORTER_OTLP_PROTOCOL is %s", protocol).WithHint("export OTEL_EXPORTER_OTLP_PROTOCOL=http/json, with the port for HTTP of the collector, often 4318")
	}
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fault.BadInput("trace_endpoint", "%q is not an HTTP URL of a collector", endpoint).WithHint("export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318")
	}
	e := &Exporter{URL: endpoint, Header: http.Header{}, Service: cmp.Or(getenv("OTEL_SERVICE_NAME"), "lattice"), Version: version, Client: http.DefaultClient}
	for pair := range strings.SplitSeq(cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS"), getenv("OTEL_EXPORTER_OTLP_HEADERS")), ",") {
		name, text, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if decoded, err := url.PathUnescape(text); ok && err == nil {
			e.Header.Set(strings.TrimSpace(name), strings.TrimSpace(decoded))
		}
	}
	return e, nil
}

// sendTimeout bounds a request to a collector.
const sendTimeout = 10 * time.Second

// Send sends spans. Sending them again is harmless: their ids are the same.
func (e *Exporter) Send(ctx context.Context, spans []Span) error {
	body, err := Encode(spans, e.Service, e.Version)
	if err != nil {
		return fmt.Errorf("encode the trace: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send the trace: %w", err)
	}
	for name, values := range e.Header {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := e.Client.Do(r)
	if err != nil {
		return fault.Network("trace_unsent", "send the trace: %v", err).WithHint("check OTEL_EXPORTER_OTLP_ENDPOINT, then: lattice trace RUN --send")
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 300)) // for the message
	if answer.StatusCode/100 != 2 {
		return fault.Network("trace_unsent", "the collector answered %s: %s", answer.Status, bytes.TrimSpace(text)).WithHint("check OTEL_EXPORTER_OTLP_ENDPOINT, then: lattice trace RUN --send")
	}
	return nil
}
