// Package llm is a client for language models with OpenAI-compatible chat completions (which local servers offer, too) or
// Anthropic Messages.
//
// Start with Client.Ask. It sends a prompt to the model that the settings name for a class, and returns text, or a kind of
// failure: refusal, truncated, rate_limited, provider_error, timeout, limit_exceeded. It does not validate the text.
//
//	Ask ──► check the budget ──► wait for the rate limiter, and for the Retry-After of the provider
//	    ──► send one request, read the streamed response ──► on 429, 5xx or a broken stream: back off, retry ──► reply
//
// Invariants: a key is sent in one header only and redacted from all text that is received; the size of every response,
// event and error is limited; redirects are not followed, because they would send the key elsewhere.
package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Provider selects the protocol of a server.
type Provider string

const (
	OpenAI    Provider = "openai"    // POST {base}/chat/completions
	Anthropic Provider = "anthropic" // POST {base}/messages
)

// Providers lists the known providers.
func Providers() []string { return []string{string(OpenAI), string(Anthropic)} }

// Structured selects how the output schema is sent. The answer is validated against the schema in any case.
type Structured string

const (
	// StructuredSchema sends the schema if the vendors' strict modes accept it: all members required, no others allowed.
	StructuredSchema Structured = "json_schema"
	StructuredJSON   Structured = "json_object" // OpenAI: some JSON object
	StructuredNone   Structured = "none"
)

// Class is a model under the name that flows use for it.
type Class struct {
	Name     string
	Provider Provider
	Model    string
	BaseURL  string // "" = the vendor's own
	// Key returns the credential, "" for none. Its errors are shown to people and must contain the remedy. Nil is no key.
	Key        func() (string, error)
	KeyFrom    string     // source of the key, for messages: the name of a variable or the path of a file
	Structured Structured // "" = json_schema at the vendor's own address, none elsewhere
	// NoTemperature omits the temperature, which some models refuse.
	NoTemperature bool
	// Prices per million tokens, in US dollars; nil is unknown.
	InputUSD, OutputUSD *float64
	Timeout             time.Duration // of a request with all its retries; 0 = DefaultTimeout
}

// DefaultTimeout is the timeout of requests if neither node nor class has one.
const DefaultTimeout = 2 * time.Minute

// vendor maps a provider to the base URL of its vendor.
var vendor = map[Provider]string{OpenAI: "https://api.openai.com/v1", Anthropic: "https://api.anthropic.com/v1"}

func (c Class) baseURL() string {
	return strings.TrimSuffix(cmp.Or(c.BaseURL, vendor[c.Provider]), "/")
}

// isVendors reports whether the class uses the vendor's base URL.
func (c Class) isVendors() bool { return c.baseURL() == vendor[c.Provider] }

func (c Class) structuredMode() Structured {
	if c.Structured == "" && c.isVendors() {
		return StructuredSchema
	}
	return cmp.Or(c.Structured, StructuredNone)
}

func (c Class) loadKey() (string, error) {
	if c.Key == nil {
		return "", nil
	}
	return c.Key()
}

// costUSD returns the price of these tokens, 0 if the price is unknown.
func (c Class) costUSD(in, out int) float64 {
	dollars := 0.0
	if c.InputUSD != nil {
		dollars += float64(in) * *c.InputUSD / 1e6
	}
	if c.OutputUSD != nil {
		dollars += float64(out) * *c.OutputUSD / 1e6
	}
	return dollars
}

// Options of New. Transport is required; the others have defaults.
type Options struct {
	Classes []Class
	// Transport sends the requests. It also selects proxies.
	Transport http.RoundTripper
	// PerMinute is the rate limit of all requests together; 0 = DefaultPerMinute.
	PerMinute int
	// Order lists classes from the weakest to the strongest.
	Order []string
	// Idle is the timeout between two reads of a response; 0 = 60 s.
	Idle time.Duration
	// Now and Sleep are for tests.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// DefaultPerMinute is the default rate limit.
const DefaultPerMinute = 120

// Client sends requests to models. It is safe for concurrent use.
type Client struct {
	classes map[string]Class
	order   []string
	http    *http.Client
	rate    *rate.Limiter
	idle    time.Duration
	now     func() time.Time
	sleep   func(ctx context.Context, d time.Duration) error

	mu    sync.Mutex
	rests map[string]time.Time // guarded by mu: base URL → time before which no request is sent
}

// New returns a client. It reports all invalid classes at once.
func New(o Options) (*Client, error) {
	c := &Client{
		classes: make(map[string]Class, len(o.Classes)), order: o.Order, idle: cmp.Or(o.Idle, time.Minute), now: o.Now, sleep: o.Sleep, rests: map[string]time.Time{},
		http: &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	perMinute := cmp.Or(o.PerMinute, DefaultPerMinute)
	c.rate = rate.NewLimiter(rate.Limit(float64(perMinute)/60), max(1, perMinute/10))
	if c.now == nil {
		c.now = time.Now
	}
	if c.sleep == nil {
		c.sleep = sleepContext
	}
	var faults []error
	for _, class := range o.Classes {
		faults = append(faults, class.checkConfig())
		c.classes[class.Name] = class
	}
	return c, errors.Join(faults...)
}

func (c Class) checkConfig() error {
	u, err := url.Parse(c.baseURL())
	switch {
	case dialects[c.Provider] == nil:
		return fmt.Errorf("model class %s: there is no provider %q; known: %s", c.Name, c.Provider, strings.Join(Providers(), ", "))
	case c.Model == "":
		return fmt.Errorf("model class %s names no model", c.Name)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "":
		return fmt.Errorf("model class %s: the base URL must be an http or https URL without credentials", c.Name)
	}
	return nil
}

// Ready returns an error if requests to a class cannot be sent, or with priced, if it has no prices. It sends nothing.
func (c *Client) Ready(class string, priced bool) error {
	found, ok := c.classes[class]
	if !ok {
		return fmt.Errorf("there is no model class %s in the settings; add a table [models.%s]", class, class)
	}
	if priced && (found.InputUSD == nil || found.OutputUSD == nil) {
		return fmt.Errorf("model class %s has no prices, which max_cost_usd needs; set its input_usd and output_usd", class)
	}
	if _, err := found.loadKey(); err != nil {
		return fmt.Errorf("model class %s has no key: %w", class, err)
	}
	return nil
}

// Upward returns an error if a node may not escalate from one class to another, because the configured order has the second
// one first.
func (c *Client) Upward(from, to string) error {
	i, j := slices.Index(c.order, from), slices.Index(c.order, to)
	if i >= 0 && j >= 0 && j <= i {
		return fmt.Errorf("the flow escalates from %s to %s, which is not a stronger class in llm.order of the settings", from, to)
	}
	return nil
}

func sleepContext(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// countUsage returns the usage that the provider reported, else an estimate.
func (c Class) countUsage(q lattice.ModelRequest, a *answer) lattice.ModelUsage {
	u := lattice.ModelUsage{InputTokens: a.in, OutputTokens: a.out}
	if !a.counted {
		const bytesPerToken = 4
		u.InputTokens = (len(q.System) + len(q.User) + bytesPerToken - 1) / bytesPerToken
		u.OutputTokens = (a.text.Len() + bytesPerToken - 1) / bytesPerToken
		u.Estimated = true
	}
	u.CostUSD = c.costUSD(u.InputTokens, u.OutputTokens)
	return u
}
